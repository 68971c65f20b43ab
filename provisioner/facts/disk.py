"""Room on a host's file systems."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote


@dataclass(frozen=True, slots=True)
class Space:
    """The file system that a folder lies on. `mount` its mount point, sizes in KiB for use by root's writes as
    `df` says, `inodes` free ones (None where the file system has no fixed number), `read_only` as mounted."""

    mount: str
    size: int
    free: int
    inodes: int | None = None
    read_only: bool = False


@dataclass(frozen=True)
class SpaceProbe(Probe[Space]):
    """Space and inodes where `path` lies; absent when there is no such folder."""

    path: str

    @property
    def key(self) -> str:
        return f"space on {self.path}"

    def script(self) -> str:
        return f"""\
d={quote(self.path)}
[ -d "$d" ] || absent
df -Pk "$d" >"$_dir/df" || unknown "df doesn't answer for $d"
df -Pi "$d" >"$_dir/dfi" || : >"$_dir/dfi"
awk 'NR == 2 {{print $(NF - 4), $(NF - 2), $NF}}' "$_dir/df"
awk 'NR == 2 {{print $(NF - 4), $(NF - 2)}}' "$_dir/dfi"
m=$(awk 'NR == 2 {{print $NF}}' "$_dir/df")
awk -v m="$m" '$2 == m {{o = $4}} END {{print "options " o}}' /proc/mounts
"""

    def parse(self, output: Output) -> Space:
        lines = output.text.splitlines()
        size, free, mount = lines[0].split(" ", 2)
        inodes = lines[1].split() if len(lines) > 2 else []
        options = lines[-1].partition(" ")[2].split(",")
        fixed = len(inodes) == 2 and inodes[0].isdigit() and inodes[0] != "0" and inodes[1].isdigit()
        return Space(
            mount=mount,
            size=int(size),
            free=int(free),
            inodes=int(inodes[1]) if fixed else None,
            read_only="ro" in options,
        )
