"""Which package manager a host has."""

from __future__ import annotations

from provisioner.facts.packages import PackageState
from provisioner.tasks.packaging.apt import Apt
from provisioner.tasks.packaging.backend import Backend
from provisioner.tasks.packaging.dnf import Dnf

BACKENDS: dict[str, Backend] = {"apt": Apt(), "dnf": Dnf()}


def backend_for(state: PackageState) -> Backend:
    """The seam's side for the manager whose database was found on the host."""
    return BACKENDS[state.manager]
