"""A host that passes every check, as facts; a test changes the one that it is about."""

from __future__ import annotations

from typing import Any

from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.facts.host import System, SystemProbe
from provisioner.model.fact import Probe
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted
from provisioner.tasks.proof import facts_of

H100 = PciDevice("0000:41:00.0", 0x2331, "0302", bars=((0x80000000, 0x80FFFFFF),))


def card(device: int, address: str = "0000:41:00.0", **more: Any) -> PciDevice:
    values: dict[str, Any] = {"bars": H100.bars, **more}
    return PciDevice(address, device, "0302", **values)


def system(name: str = "debian", version: str = "12", **more: Any) -> System:
    values: dict[str, Any] = {"id_like": (), "codename": "", "kernel": "6.1.0-18-amd64", "machine": "x86_64"}
    return System(name, version, hostname="gpu01", **{**values, **more})


GOOD: dict[Probe[Any], Any] = {
    SystemProbe(): system(),
    PciProbe(): (H100,),
}


def verdict(check: Check, wanted: Wanted, changed: dict[Probe[Any], Any] | None = None) -> Verdict:
    """What one check says of the good host with these facts changed."""
    found = list(check.run(facts_of({**GOOD, **(changed or {})}), wanted))
    assert len(found) <= 1
    return found[0] if found else None
