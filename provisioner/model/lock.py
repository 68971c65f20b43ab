"""The exact packages per distribution, as `provision lock` found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["driver", "toolkit", "dependency"]


@dataclass(frozen=True, slots=True, order=True)
class LockedPackage:
    """One package at one exact version. Packages of the roles driver and toolkit are held, dependencies are
    only recorded. `arch` is the package manager's own name ("amd64", "all")."""

    name: str
    version: str
    arch: str
    role: Role


@dataclass(frozen=True, slots=True)
class Closure:
    """Everything one distribution needs. `distribution` is ID plus VERSION_ID ("debian12", "ubuntu22.04");
    `source` names the kind of repository ("nvidia", "debian", "ubuntu"); `top` the packages asked for."""

    distribution: str
    arch: str
    source: str
    driver: str
    flavour: str
    toolkit: str
    top: tuple[str, ...]
    packages: tuple[LockedPackage, ...]

    def role(self, *roles: Role) -> tuple[LockedPackage, ...]:
        """The packages of these roles."""
        return tuple(package for package in self.packages if package.role in roles)


@dataclass(frozen=True, slots=True)
class Lock:
    """All closures of an inventory."""

    closures: tuple[Closure, ...] = ()
