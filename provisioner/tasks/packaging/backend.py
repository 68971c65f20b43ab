"""What the package tasks need of a package manager, and which one a host has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from provisioner.facts.host import System
from provisioner.model.inventory import Repository
from provisioner.model.lock import LockedPackage


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file that must be on the host. `content` may hold secret references; then `secret` is the real content,
    for comparing digests only. `mode` None: as it is, 0644 when new."""

    path: str
    content: str
    mode: int | None = None
    secret: str = ""


class Backend(Protocol):
    """One package manager."""

    @property
    def manager(self) -> Literal["apt", "dnf"]:
        """What `Packages.manager` says."""
        ...

    def compare(self, one: str, two: str) -> int:
        """Negative, zero or positive as the manager orders two versions."""
        ...

    def repository(self, repository: Repository, system: System) -> tuple[HostFile, ...]:
        """The files that make up one repository."""
        ...

    def pins(self, packages: Iterable[LockedPackage]) -> tuple[HostFile, ...]:
        """The files (besides holds) that keep packages at their versions."""
        ...
