"""The inventory that fits every machine of these tests."""

from __future__ import annotations

from tests.lab.site import GPU_NODE, REPO, Site
from tests.vm.machine import Machine

#: Packages bring compiled modules; two cards.
VM_NODE = GPU_NODE + '[driver]\nmodules = "prebuilt"\n'


def write(site: Site, machine: Machine, more: str = "") -> None:
    """That inventory, and the lock of inventories/vm.toml, which wants the same: resolving it anew takes minutes."""
    site.write(machine, text=VM_NODE + more)
    site.inventory.with_suffix(".lock").write_text((REPO / "inventories/vm.lock").read_text())
