"""What the package manager says: packages and their state, holds, an interrupted run, who holds its lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from provisioner.model.fact import Output, Probe
from provisioner.quoting import words

Manager = Literal["apt", "dnf"]


@dataclass(frozen=True, slots=True)
class Package:
    """One package as the database has it. `version` in the manager's own notation ("535.216.03-2~bpo12+1",
    "3:580.95.05-1.el9"); `installed` means unpacked and configured, `status` is dpkg's two or three letters."""

    name: str
    version: str
    arch: str
    status: str = "ii"

    @property
    def installed(self) -> bool:
        """Unpacked and configured (triggers may be pending), for use now."""
        return len(self.status) > 1 and self.status[1] in "iWt" and not self.broken

    @property
    def broken(self) -> bool:
        """Left in the middle: unpacked only, half configured, half installed, or to be reinstalled."""
        return self.status[1:2] in ("U", "F", "H") or self.status[2:3] == "R"


@dataclass(frozen=True)
class PackageState:
    """The whole database. `packages` by name (the native architecture wins); a name that isn't there, or is there
    as "rc" (only configuration files left), isn't installed. `interrupted`: dpkg was killed in the middle and
    wants `dpkg --configure -a`."""

    manager: Manager
    packages: Mapping[str, Package] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()
    interrupted: bool = False

    def version(self, name: str) -> str | None:
        """The installed version of a package, or None."""
        package = self.packages.get(name)
        return package.version if package is not None and package.installed else None

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of packages left in the middle, sorted."""
        return tuple(sorted(package.name for package in self.packages.values() if package.broken))


@dataclass(frozen=True)
class PackagesProbe(Probe[PackageState]):
    """All packages of dpkg or rpm, so that a name that isn't listed is certainly not installed."""

    @property
    def key(self) -> str:
        return "packages"

    def script(self) -> str:
        return r"""
if command -v dpkg-query >/dev/null 2>&1; then
    echo apt
    [ -z "$(ls /var/lib/dpkg/updates 2>/dev/null)" ] || echo interrupted
    a=$(dpkg --print-architecture) || unknown 'dpkg does not say its architecture'
    echo "arch $a"
    dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n' || exit
elif command -v rpm >/dev/null 2>&1; then
    echo dnf
    rpm -qa --qf 'ii \t%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\n' || exit
    f=/etc/dnf/plugins/versionlock.list
    [ ! -r "$f" ] || sed -n 's/^[[:space:]]*\([^#[:space:]].*\)/hold \1/p' "$f"
else
    unknown 'neither dpkg nor rpm manages packages here'
fi
"""

    def parse(self, output: Output) -> PackageState:
        manager, _, body = output.text.partition("\n")
        if manager not in ("apt", "dnf"):
            raise ValueError(f"unexpected first line {manager!r}")
        packages: dict[str, Package] = {}
        held: set[str] = set()
        native, interrupted = "", False
        for line in body.splitlines():
            columns = line.split("\t")
            if len(columns) == 4:
                status, name, version, arch = columns
                package = Package(name, version.removeprefix("0:"), arch, status.strip())
                if name not in packages or arch in (native, "all") or not packages[name].installed:
                    packages[name] = package
                if status.startswith("h"):
                    held.add(name)
            elif line == "interrupted":
                interrupted = True
            elif line.startswith("arch "):
                native = line[5:]
            elif line.startswith("hold "):
                held.add(_locked_name(line[5:]))
        return PackageState("apt" if manager == "apt" else "dnf", packages, frozenset(held), interrupted)


def _locked_name(entry: str) -> str:
    """The name in a line of dnf's versionlock: NAME-EPOCH:VERSION-RELEASE.ARCH."""
    return entry.strip().rsplit("-", 2)[0]


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds the package manager's lock. `name` is its comm (15 characters)."""

    pid: int
    name: str


@dataclass(frozen=True)
class LockHolderProbe(Probe[LockHolder]):
    """Who holds dpkg's or apt's lock, from /proc/locks by device and inode; absent when nobody does."""

    @property
    def key(self) -> str:
        return "holder of the package lock"

    def script(self) -> str:
        return r"""
[ -r /proc/locks ] || unknown '/proc/locks cannot be read'
for f in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock \
    /var/lib/rpm/.rpm.lock; do
    [ -e "$f" ] || continue
    i=$(stat -c %i "$f") || unknown "$f cannot be read"
    # two columns name the holder and the file: PID MAJOR:MINOR:INODE; a waiting process has -> before its kind
    p=$(awk -v i="$i" '$2 != "->" {n = split($6, d, ":"); if (d[n] == i) {print $5; exit}}' /proc/locks)
    [ -n "$p" ] && [ "$p" -gt 0 ] 2>/dev/null || continue
    for q in $(ls -l "/proc/$p/fd" 2>/dev/null | awk '{print $NF}'); do
        [ "$q" = "$f" ] || continue
        read -r c <"/proc/$p/comm" || continue
        printf '%s %s\n' "$p" "$c"
        exit 0
    done
done
absent
"""

    def parse(self, output: Output) -> LockHolder:
        pid, _, name = output.text.strip().partition(" ")
        return LockHolder(int(pid), name)


@dataclass(frozen=True, slots=True)
class Available:
    """One version that a repository offers, newest first as the manager lists it. `origin` is the repository."""

    name: str
    version: str
    origin: str


@dataclass(frozen=True)
class AvailableProbe(Probe[tuple[Available, ...]]):
    """Versions of `names` in the lists that the host has already fetched (an empty answer: none there)."""

    names: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"versions of {', '.join(self.names)}"

    def script(self) -> str:
        return f"""\
if command -v apt-cache >/dev/null 2>&1; then apt-cache madison {words(self.names)}
elif command -v dnf >/dev/null 2>&1; then
    dnf -q -C repoquery --qf '%{{name}} | %{{epoch}}:%{{version}}-%{{release}} | %{{reponame}}\\n' {words(self.names)}
else unknown 'neither apt nor dnf is here'
fi
"""

    def parse(self, output: Output) -> tuple[Available, ...]:
        rows: Iterable[list[str]] = (
            [part.strip() for part in line.split("|")] for line in output.text.splitlines() if line.count("|") == 2
        )
        return tuple(
            Available(name, version.removeprefix("0:"), origin)
            for name, version, origin in rows
            if not origin.endswith("Sources")
        )
