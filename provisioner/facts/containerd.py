"""containerd's configuration as it lies on a host, and as containerd itself reads it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.facts.services import InputsProbe, stamp_path
from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote

IMPORTED = r"""
# The strings of the array `imports` at the top of a file, one a line; comments don't count.
imports() {
    awk '
        !on && /^[ \t]*["\047]?imports["\047]?[ \t]*=/ {on = 1; sub(/^[^=]*=/, "")}
        on {sub(/#[^"\047]*$/, ""); text = text $0; if ($0 ~ /\]/) {on = 0; exit}}
        END {while (match(text, /"[^"]*"|\047[^\047]*\047/)) {
            print substr(text, RSTART + 1, RLENGTH - 2); text = substr(text, RSTART + RLENGTH)}}' "$1"
}
# imported FILE WORD: the files that it imports and those that they import, one a line; with a WORD also what was
# looked for, behind that word.
imported() (
    nl='
'
    IFS=$nl; set -f; todo=$1; seen=$nl$1$nl
    while [ -n "$todo" ]; do
        next=
        for q in $todo; do
            for p in $(imports "$q"); do
                case $p in /*) ;; *) p=${q%/*}/$p ;; esac
                [ -z "$2" ] || printf '%s %s\n' "$2" "$p"
                set +f
                for i in $p; do
                    [ -f "$i" ] || continue
                    case $seen in *"$nl$i$nl"*) continue ;; esac
                    seen=$seen$i$nl next=$next$i$nl
                    printf '%s\n' "$i"
                done
                set -f
            done
        done
        todo=$next
    done
)
"""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a configuration imports, directly and through other imports. `files`: path → content; `patterns` the
    paths and globs that were looked for, absolute."""

    files: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedProbe(Probe[Imported]):
    """The files that `imports` of a config names, globs and their own imports followed. Absent without the config."""

    path: str

    @property
    def key(self) -> str:
        return f"imports of {self.path}"

    def script(self) -> str:
        return f"""\
f={quote(self.path)}
[ -e "$f" ] || absent
{IMPORTED}
imported "$f" look >"$_dir/imported" || unknown "$f can't be read"
while IFS= read -r i; do
    case $i in look\\ *) printf '%s\\n' "$i"; continue ;; esac
    printf 'file %s %s\\n' "$(wc -c <"$i")" "$i"
    cat "$i" || unknown "$i can't be read"
done <"$_dir/imported"
"""

    def parse(self, output: Output) -> Imported:
        data, at = output.stdout, 0
        files: dict[str, str] = {}
        patterns = []
        while at < len(data):
            end = data.index(b"\n", at)
            word, _, rest = data[at:end].decode("utf-8", "surrogateescape").partition(" ")
            at = end + 1
            if word == "look":
                patterns.append(posixpath.normpath(rest))
            elif word == "file":
                size, path = rest.split(" ", 1)
                at += int(size)
                files[posixpath.normpath(path)] = data[end + 1 : at].decode("utf-8", "surrogateescape")
            else:
                raise ValueError("the answer can't be read")
        return Imported(files, tuple(patterns))


def config_inputs_script(path: str) -> str:
    """sh commands that print what containerd reads at its start: "SHA256  PATH" for its file and all it imports."""
    return f"""\
{IMPORTED}
f={quote(path)}
{{ printf '%s\\n' "$f"; [ ! -e "$f" ] || imported "$f"; }} | while IFS= read -r i; do
    s=absent
    if [ -e "$i" ]; then s=$(sha256sum <"$i") || exit 1; fi
    printf '%s  %s\\n' "${{s%% *}}" "$i"
done
"""


@dataclass(frozen=True)
class ConfigInputsProbe(InputsProbe):
    """Does containerd run with what lies on the disk? `paths` is its one file; what it imports counts as well."""

    def script(self) -> str:
        (path,) = self.paths
        return f"""\
s={quote(stamp_path(self.unit))}
if [ -r "$s" ]; then echo stamp; cat "$s"; else echo none; fi
{{
{config_inputs_script(path)}}} >"$_dir/inputs" || unknown "what containerd reads can't be summed"
echo changed
while IFS= read -r i; do
    [ ! -e "${{i#*  }}" ] || find -L "${{i#*  }}" -maxdepth 0 -printf '%C@\\n'
done <"$_dir/inputs" | sort -n | tail -n 1
echo now
cat "$_dir/inputs"
"""


@dataclass(frozen=True, slots=True)
class Dump:
    """What `containerd config dump` answered: its text, or why containerd refuses the file (`error`)."""

    text: str
    error: str = ""


@dataclass(frozen=True)
class DumpProbe(Probe[Dump]):
    """The effective configuration of this file; absent without containerd."""

    path: str

    @property
    def key(self) -> str:
        return "containerd's effective configuration"

    def script(self) -> str:
        return f"""\
command -v containerd >/dev/null 2>&1 || absent
if bounded 15 containerd -c {quote(self.path)} config dump >"$_dir/dump" 2>"$_dir/dump.err"; then
    echo ok; cat "$_dir/dump"
else
    rc=$?; [ "$rc" -ne 75 ] || unknown 'containerd config dump does not end'
    echo refused; tail -n 5 "$_dir/dump.err"
fi
"""

    def parse(self, output: Output) -> Dump:
        word, _, rest = output.text.partition("\n")
        return Dump(rest) if word == "ok" else Dump("", rest.strip() or "containerd config dump fails")


SOCKET = "/run/containerd/containerd.sock"
"""Where containerd listens unless its configuration says otherwise."""


@dataclass(frozen=True)
class PluginsProbe(Probe[str]):
    """What `ctr plugins ls` prints; absent when containerd doesn't run or there is no ctr. `path`: its configuration,
    which may name another socket."""

    path: str

    @property
    def key(self) -> str:
        return "containerd's plugins"

    def script(self) -> str:
        return f"""\
command -v ctr >/dev/null 2>&1 || absent
systemctl is-active -q containerd.service 2>/dev/null || absent
a=$(awk '/^[ \\t]*\\[/ {{on = /^[ \\t]*\\[grpc\\]/}}
    on && /^[ \\t]*address[ \\t]*=/ && split($0, p, /["\\047]/) > 2 {{print p[2]; exit}}' \\
    {quote(self.path)} 2>/dev/null)
bounded 10 ctr -a "${{a:-{SOCKET}}}" plugins ls || unknown "containerd runs and doesn't list its plugins"
"""

    def parse(self, output: Output) -> str:
        return output.text


@dataclass(frozen=True)
class ClientsProbe(Probe[tuple[str, ...]]):
    """Which of the programs that ask a running containerd are there: "ctr" (its own), "crictl" (of cri-tools)."""

    @property
    def key(self) -> str:
        return "containerd's clients"

    def script(self) -> str:
        return """\
for c in ctr crictl; do ! command -v "$c" >/dev/null 2>&1 || echo "$c"; done
"""

    def parse(self, output: Output) -> tuple[str, ...]:
        return tuple(output.text.split())


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A CDI specification. `kind` as "nvidia.com/gpu"; `drivers` the driver versions in the names of the libraries
    that it mounts, sorted: one for a specification of `nvidia-ctk cdi generate`, none where it mounts none;
    `numbered`: its devices are named gpu0, gpu1, …, which takes an option when it is generated."""

    kind: str
    drivers: tuple[str, ...] = ()
    numbered: bool = False


@dataclass(frozen=True)
class CdiSpecsProbe(Probe[Mapping[str, CdiSpec]]):
    """The CDI specifications of this host that are NVIDIA's by name or kind, by path."""

    @property
    def key(self) -> str:
        return "CDI specs"

    def script(self) -> str:
        return r"""
for f in /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json; do
    [ -f "$f" ] || continue
    k=$(grep -o '"\{0,1\}kind"\{0,1\}[[:space:]]*:[[:space:]]*"\{0,1\}[^", ]*' "$f" | head -n 1)
    case $f$k in *nvidia*) ;; *) continue ;; esac
    v=$(grep -o '/lib\(cuda\|nvidia-ml\|nvidia-ptxjitcompiler\)\.so\.[0-9]\{3,\}\.[0-9][0-9.]*' "$f" |
        sed 's/.*\.so\.//' | sort -u | tr '\n' ',')
    n=-; grep -q '"\{0,1\}name"\{0,1\}[[:space:]]*:[[:space:]]*"\{0,1\}gpu[0-9]' "$f" && n=numbered
    k=${k##*[: \"]}
    printf '%s %s %s %s\n' "${k:--}" "${v:--}" "$n" "$f"
done
exit 0
"""

    def parse(self, output: Output) -> Mapping[str, CdiSpec]:
        found = {}
        for line in output.text.splitlines():
            kind, versions, numbered, path = line.split(" ", 3)
            drivers = tuple(version for version in versions.split(",") if version not in ("", "-"))
            found[path] = CdiSpec("" if kind == "-" else kind, drivers, numbered == "numbered")
        return found
