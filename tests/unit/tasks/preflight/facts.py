"""A host that passes every check, as facts; a test changes the one that it is about."""

from __future__ import annotations

from typing import Any

from provisioner.facts.boot import Kernel, Kernels, KernelsProbe, SecureBoot, SecureBootProbe, Signers, SignersProbe
from provisioner.facts.disk import Space, SpaceProbe
from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.facts.host import Identity, IdentityProbe, System, SystemProbe
from provisioner.facts.owner import Ownership, OwnershipProbe
from provisioner.facts.packages import LockHolderProbe, PackagesProbe, PackageState
from provisioner.facts.runfile import RunfileProbe
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.model.fact import Probe
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted
from provisioner.tasks.proof import Given, facts_of

H100 = PciDevice("0000:41:00.0", 0x2331, "0302", bars=((0x80000000, 0x80FFFFFF),))


def card(device: int, address: str = "0000:41:00.0", **more: Any) -> PciDevice:
    values: dict[str, Any] = {"bars": H100.bars, **more}
    return PciDevice(address, device, "0302", **values)


def system(name: str = "debian", version: str = "12", **more: Any) -> System:
    values: dict[str, Any] = {"id_like": (), "codename": "", "kernel": "6.1.0-18-amd64", "machine": "x86_64"}
    return System(name, version, hostname="gpu01", **{**values, **more})


RUNNING = Kernel("6.1.0-18-amd64", headers=True)
NEWER = Kernel("6.1.0-21-amd64", headers=True)

GOOD: dict[Probe[Any], Any] = {
    SystemProbe(): system(),
    IdentityProbe(): Identity("machine", "boot", 1, systemd=True),
    PciProbe(): (H100,),
    SpaceProbe("/"): Space("/", 40_000_000, 20_000_000, 1_000_000),
    SpaceProbe("/boot"): Space("/boot", 500_000, 300_000, 100_000),
    SpaceProbe("/var"): Space("/", 40_000_000, 20_000_000, 1_000_000),
    KernelsProbe(): Kernels(RUNNING, NEWER, "it is the newest in /boot"),
    SecureBootProbe(): SecureBoot(enforced=False, efi=True),
    SignersProbe(): Signers(),
    PackagesProbe(): PackageState("apt"),
    LockHolderProbe(): None,
    RunfileProbe(): None,
    OwnershipProbe(): Ownership(),
    ContainerdVersionProbe(): "containerd github.com/containerd/containerd 1.7.24 1.7.24~ds1-6",
}


def verdict(check: Check, wanted: Wanted, changed: Given | None = None) -> Verdict:
    """What one check says of the good host with these facts changed."""
    found = list(check.run(facts_of({**GOOD, **(changed or {})}), wanted))
    assert len(found) <= 1
    return found[0] if found else None
