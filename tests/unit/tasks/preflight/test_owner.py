"""GPU Operator and managed pools. Facts in, exact findings out."""

from __future__ import annotations

from provisioner.facts.owner import Ownership, OwnershipProbe
from provisioner.model.change import Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.owner import CHECKS
from provisioner.tasks.preflight.wanted import Wanted
from tests.unit.tasks.preflight.facts import verdict

CHECK = {check.subject: check for check in CHECKS}


def test_the_driver_of_an_operator() -> None:
    seen = Ownership(operator_driver=("/run/nvidia/driver is mounted",))
    assert verdict(CHECK["GPU Operator"], Wanted(), {OwnershipProbe(): seen}) == Refusal(
        subject="GPU Operator",
        what="a GPU Operator provides the driver of this host",
        why="/run/nvidia/driver is mounted. Its driver container and a driver on the host unload each other's modules",
        remedy="leave the driver to it and take this host out of the inventory; or set driver.enabled=false in its "
        "ClusterPolicy, drain and reboot the node, then plan again",
    )


def test_the_toolkit_of_an_operator() -> None:
    seen = Ownership(operator_toolkit=("/usr/local/nvidia/toolkit holds the runtime",))
    found = verdict(CHECK["GPU Operator's toolkit"], Wanted(), {OwnershipProbe(): seen})
    assert isinstance(found, Refusal)
    assert "toolkit.enabled=false" in found.remedy


def test_an_operator_that_uses_the_host_s_driver_is_welcome() -> None:
    seen = Ownership(operator_seen=("/run/nvidia/validations says that the host's own driver is used",))
    assert [verdict(check, Wanted(), {OwnershipProbe(): seen}) for check in CHECKS] == [None] * len(CHECKS)


def test_a_managed_pool() -> None:
    seen = Ownership(pool=("/opt/azure/vhd-install.complete is there",), pool_name="AKS")
    found = verdict(CHECK["managed pool"], Wanted(), {OwnershipProbe(): seen})
    assert isinstance(found, Refusal)
    assert found.what == "this host is a node of a managed AKS pool"


def test_unknown_owners_are_refused() -> None:
    for check in CHECKS:
        found = verdict(check, Wanted(), {OwnershipProbe(): Unknown("/proc/self/mountinfo cannot be read")})
        assert isinstance(found, Refusal)
        assert found.what.startswith("can't tell: ")
