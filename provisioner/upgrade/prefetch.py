"""Packages fetched to a host before its node is touched: those of the target, and those that are the way back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from provisioner.facts.packages import PackageState
from provisioner.model.lock import Closure, LockedPackage, Role
from provisioner.quoting import quote, words
from provisioner.tasks.packaging.backend import Backend
from provisioner.tasks.packaging.closure_on_host import difference
from provisioner.tasks.packaging.names import role
from provisioner.upgrade.hoststep import Fence, Rows, Step, fields, scripted

FOLDER = "/var/lib/provision/packages"
"""Folder on a host with one folder a set of packages."""
TIMEOUT = 4000.0
"""Seconds that fetching both sets may take."""


@dataclass(frozen=True, slots=True)
class PackageSet:
    """Packages to be on a host. `version` of the driver or toolkit they make up; `kind` names what moves; `remove`:
    packages that must go with them."""

    version: str
    kind: str
    packages: tuple[LockedPackage, ...]
    remove: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of its folder: "580.95.05", "toolkit-1.18.0"."""
        return self.version if self.kind == "driver" else f"{self.kind}-{self.version}"


@dataclass(frozen=True, slots=True)
class Cache:
    """A set of packages on a host's disk. `missing`: "NAME VERSION" that could not be had; `trouble` why, for
    people; `size` bytes; `free` MiB left on its file system."""

    version: str
    kind: str
    folder: str
    packages: tuple[LockedPackage, ...] = ()
    remove: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    trouble: str = ""
    size: int = 0
    free: int = 0

    @property
    def ready(self) -> bool:
        """Is everything there?"""
        return bool(self.packages) and not self.missing and not self.trouble

    @property
    def driver(self) -> bool:
        """Does it hold a driver, and so kernel modules?"""
        return self.kind == "driver"

    @property
    def reason(self) -> str:
        """Why it isn't ready: "libcuda1 535.216.03-1 can't be had any more"; "" when it is."""
        if self.trouble:
            return self.trouble
        if self.missing:
            named = ", ".join(self.missing[:3]) + (", …" if len(self.missing) > 3 else "")
            return f"neither the repositories nor this host's own cache have {named}"
        return "" if self.packages else "there are no such packages"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a host has on its disk now. `previous` is the way back; not `ready` means: no way back."""

    target: Cache
    previous: Cache


def target_set(closure: Closure, state: PackageState, backend: Backend, kind: Role = "driver") -> PackageSet:
    """What the lock wants, with removals of what other driver versions left."""
    version = closure.driver if kind == "driver" else closure.toolkit
    found = difference(closure.role(kind), state, backend, driver=closure.driver if kind == "driver" else "")
    return PackageSet(version, kind, found.packages, found.remove)


def previous_set(closure: Closure, state: PackageState, source: str, kind: Role = "driver") -> PackageSet:
    """What is installed now of the driver (of version `source`) or the toolkit. `remove`: packages of the target
    that aren't here now, and must go on the way back. Must be asked before anything was moved."""
    installed = tuple(
        sorted(
            LockedPackage(package.name, package.version, package.arch, kind)
            for package in state.packages.values()
            if package.installed and role(package.name, package.version, source) == kind
        )
    )
    new = tuple(package.name for package in closure.role(kind) if state.version(package.name) is None)
    return PackageSet(source, kind, installed, new)


def previous_closure(closure: Closure, kept: Cache, state: PackageState) -> Closure:
    """The target's closure turned back, for the pins of the way back: what moved is as `kept`, the rest (toolkit or
    driver) as it is on the host."""
    moved: Role = "driver" if kept.driver else "toolkit"
    packages = tuple(package for package in kept.packages if package.role == moved)
    if kept.driver:
        rest = previous_set(closure, state, "", "toolkit").packages
        return replace(closure, driver=kept.version, top=(), packages=(*packages, *rest))
    rest = previous_set(closure, state, closure.driver).packages
    return replace(closure, toolkit=kept.version, top=(), packages=(*rest, *packages))


def prefetch(fence: Fence, target: PackageSet, previous: PackageSet) -> Step[Fetched]:
    """Fetch both sets; nothing that is installed changes. Other sets in FOLDER are removed. A set that this run has
    fetched already is only checked, so that what a resumed roll finds half installed doesn't become the way back."""
    body = _fetch(fence, target, "target") + _fetch(fence, previous, "previous")
    body += f"tidy {words([target.name, previous.name])}"
    return Step(
        "fetch the packages",
        scripted(fence, ("prefetch",), body),
        TIMEOUT,
        lambda rows: Fetched(cache(rows, target.name, target), cache(rows, previous.name, previous)),
    )


def _fetch(fence: Fence, asked: PackageSet, mode: str) -> str:
    if not asked.packages:
        return ""
    rows = "\n".join(f"{package.name} {package.version} {package.role}" for package in asked.packages)
    return (
        f"wanted={quote(rows)}\nremoved={quote(' '.join(asked.remove))}\nmode={mode}\n"
        f"fetch {words([asked.name, fence.run])}\n"
    )


def stored(fence: Fence, version: str, kind: Role = "driver") -> Step[Cache]:
    """What an earlier step of this roll has fetched, its sums checked anew; no packages when there is none."""
    asked = PackageSet(version, kind, ())
    return Step(
        "read what was fetched",
        scripted(fence, ("prefetch",), f"stored {quote(asked.name)}"),
        120.0,
        lambda rows: cache(rows, asked.name, asked),
    )


def cache(rows: Rows, name: str, asked: PackageSet) -> Cache:
    """What the script told of one set."""
    told = [row[1:] for row in fields(rows, "package") if row[0] == name]
    roles: Collection[str] = ("driver", "toolkit")
    free = [row[1] for row in fields(rows, "free") if row[0] == name]
    return Cache(
        version=asked.version,
        kind=asked.kind,
        folder=f"{FOLDER}/{name}",
        packages=tuple(
            LockedPackage(package, version, arch, _role(kind) if kind in roles else "dependency")
            for package, version, kind, arch, _ in told
        ),
        remove=tuple(row[1] for row in fields(rows, "remove") if row[0] == name),
        missing=tuple(f"{row[1]} {row[2]}" for row in fields(rows, "missing") if row[0] == name),
        trouble="; ".join(row[1] for row in fields(rows, "trouble") if row[0] == name),
        size=sum(int(row[4]) for row in told),
        free=int(free[-1]) if free else 0,
    )


def _role(word: str) -> Role:
    return "toolkit" if word == "toolkit" else "driver"
