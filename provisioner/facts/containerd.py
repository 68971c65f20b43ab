"""containerd's configuration as it lies on a host, and as containerd itself reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote

_LIST_IMPORTS = r"""
# The strings of the array `imports`, one a line; comments don't count.
imports() {
    awk '
        !on && /^[ \t]*imports[ \t]*=/ {on = 1; sub(/^[^=]*=/, "")}
        on {sub(/#[^"\047]*$/, ""); text = text $0; if ($0 ~ /\]/) {on = 0; exit}}
        END {while (match(text, /"[^"]*"|\047[^\047]*\047/)) {
            print substr(text, RSTART + 1, RLENGTH - 2); text = substr(text, RSTART + RLENGTH)}}' "$1"
}
"""


@dataclass(frozen=True)
class ImportedProbe(Probe[Mapping[str, str]]):
    """The files that `imports` of a config names, globs followed: path → content. Absent without the config."""

    path: str

    @property
    def key(self) -> str:
        return f"imports of {self.path}"

    def script(self) -> str:
        return f"""\
f={quote(self.path)}
[ -e "$f" ] || absent
{_LIST_IMPORTS}
base=$(dirname "$f")
imports "$f" >"$_dir/imports" || unknown "$f can't be read"
set -f; IFS='
'
for p in $(cat "$_dir/imports"); do
    case $p in /*) ;; *) p=$base/$p ;; esac
    set +f
    for i in $p; do
        [ -f "$i" ] || continue
        [ "$i" != "$f" ] || continue
        printf 'file %s %s\\n' "$(wc -c <"$i")" "$i"
        cat "$i" || unknown "$i can't be read"
    done
    set -f
done
"""

    def parse(self, output: Output) -> Mapping[str, str]:
        data, at, files = output.stdout, 0, {}
        while at < len(data):
            end = data.index(b"\n", at)
            word, size, path = data[at:end].decode("utf-8", "surrogateescape").split(" ", 2)
            if word != "file":
                raise ValueError("the answer can't be read")
            at = end + 1 + int(size)
            files[path] = data[end + 1 : at].decode("utf-8", "surrogateescape")
        return files


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


@dataclass(frozen=True)
class PluginsProbe(Probe[str]):
    """What `ctr plugins ls` prints; absent when containerd doesn't run."""

    @property
    def key(self) -> str:
        return "containerd's plugins"

    def script(self) -> str:
        return """\
command -v ctr >/dev/null 2>&1 || absent
systemctl is-active -q containerd.service 2>/dev/null || absent
bounded 10 ctr plugins ls || unknown "containerd runs and doesn't list its plugins"
"""

    def parse(self, output: Output) -> str:
        return output.text


@dataclass(frozen=True)
class CdiSpecsProbe(Probe[Mapping[str, str]]):
    """NVIDIA's CDI specs: path → the driver version in the libraries it names ("" when it names none)."""

    @property
    def key(self) -> str:
        return "CDI specs"

    def script(self) -> str:
        return r"""
for f in /etc/cdi/*nvidia* /var/run/cdi/*nvidia*; do
    [ -f "$f" ] || continue
    v=$(grep -o 'lib\(cuda\|nvidia-ml\|nvidia-ptxjitcompiler\)\.so\.[0-9][0-9.]*[0-9]' "$f" |
        sed 's/.*\.so\.//' | grep '\.' | sort -u | head -n 1) || :
    printf '%s %s\n' "${v:--}" "$f"
done
"""

    def parse(self, output: Output) -> Mapping[str, str]:
        pairs = (line.split(" ", 1) for line in output.text.splitlines())
        return {path: "" if version == "-" else version for version, path in pairs}
