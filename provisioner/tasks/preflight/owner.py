"""Does someone else own this host's driver?"""

from __future__ import annotations

from provisioner.facts.owner import OwnershipProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted


def operator_driver(facts: Facts, wanted: Wanted) -> Verdict:
    """No GPU Operator provides the driver."""
    seen = facts.need(OwnershipProbe()).operator_driver
    if not seen:
        return None
    return Refusal(
        subject="GPU Operator",
        what="a GPU Operator provides the driver of this host",
        why=f"{'; '.join(seen)}. Its driver container and a driver on the host unload each other's modules",
        remedy="leave the driver to it and take this host out of the inventory; or set driver.enabled=false in its "
        "ClusterPolicy, drain and reboot the node, then plan again",
    )


def operator_toolkit(facts: Facts, wanted: Wanted) -> Verdict:
    """No GPU Operator installs the toolkit and edits containerd's configuration."""
    seen = facts.need(OwnershipProbe()).operator_toolkit
    if not seen:
        return None
    return Refusal(
        subject="GPU Operator's toolkit",
        what="a GPU Operator provides the toolkit of this host",
        why=f"{'; '.join(seen)}. Two owners of containerd's configuration undo each other's work",
        remedy="set toolkit.enabled=false in its ClusterPolicy, then plan again; or take this host out of the "
        "inventory",
    )


def pool(facts: Facts, wanted: Wanted) -> Verdict:
    """The host isn't a node of a managed pool."""
    found = facts.need(OwnershipProbe())
    if not found.pool:
        return None
    return Refusal(
        subject="managed pool",
        what=f"this host is a node of a managed {found.pool_name} pool",
        why=f"{'; '.join(found.pool)}. The pool replaces its nodes by new images, and with them what is done here",
        remedy="choose the driver in the pool's settings or its image, and take this host out of the inventory",
    )


CHECKS = (
    Check("GPU Operator", "does a GPU Operator own the driver?", (OwnershipProbe(),), operator_driver),
    Check("GPU Operator's toolkit", "does a GPU Operator own the toolkit?", (OwnershipProbe(),), operator_toolkit),
    Check("managed pool", "is this a node of a managed pool?", (OwnershipProbe(),), pool),
)
