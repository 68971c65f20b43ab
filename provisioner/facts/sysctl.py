"""Kernel parameters: what holds now, and what the files say for the next boot."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote


def proc_path(key: str) -> str:
    """Where the kernel keeps a parameter: "vm.swappiness" → /proc/sys/vm/swappiness. A name with slashes is taken
    as it is, for interfaces with dots: "net/ipv4/conf/eth0.100/rp_filter"."""
    return "/proc/sys/" + (key if "/" in key else key.replace(".", "/"))


def normal(value: str) -> str:
    """A value as sysctl compares it: white space counts as one space."""
    return " ".join(value.split())


@dataclass(frozen=True, slots=True)
class Sysctl:
    """`now` the running value, None when the kernel has no such parameter (its module isn't loaded); `settings`
    (file, value) in the order in which systemd-sysctl applies them, the last one wins."""

    now: str | None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SysctlProbe(Probe[Sysctl]):
    """One parameter. The files are those of sysctl.d(5): sorted by name over all folders, and of two with one name
    that in /etc counts, then /run, then /usr/local/lib, then /usr/lib."""

    key_name: str

    @property
    def key(self) -> str:
        return f"sysctl {self.key_name}"

    def script(self) -> str:
        return f"""\
f={quote(proc_path(self.key_name))} k={quote(self.key_name.replace("/", "."))}
if [ -e "$f" ]; then
    v=$(cat "$f") || unknown "$f cannot be read"
    printf 'now %s\\n' "$(printf '%s' "$v" | tr '\\t\\n' '  ')"
fi
for d in /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d; do
    for p in "$d"/*.conf; do [ -r "$p" ] && printf '%s\\t%s\\n' "${{p##*/}}" "$p"; done
done | awk -F '\\t' '!seen[$1]++' | sort -t "$(printf '\\t')" -k 1,1 | cut -f 2 | while read -r p; do
    awk -v k="$k" -v p="$p" '
        /^[[:space:]]*[#;]/ {{next}}
        {{i = index($0, "="); if (!i) next
          n = substr($0, 1, i - 1); gsub(/^[[:space:]]*-?[[:space:]]*|[[:space:]]*$/, "", n); gsub("/", ".", n)
          if (n != k) next
          v = substr($0, i + 1); gsub(/^[[:space:]]*|[[:space:]]*$/, "", v)
          print "file\\t" p "\\t" v}}' "$p"
done
"""

    def parse(self, output: Output) -> Sysctl:
        now: str | None = None
        settings: list[tuple[str, str]] = []
        for line in output.text.splitlines():
            if line.startswith("now "):
                now = normal(line[4:])
            elif line.startswith("file\t"):
                _, path, value = line.split("\t", 2)
                settings.append((path, normal(value)))
        return Sysctl(now, tuple(settings))
