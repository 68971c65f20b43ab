"""The driver's daemons: persistence everywhere, the fabric manager exactly where an NVSwitch is."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.facts.driver import LoadedModules
from provisioner.facts.gpu import PciProbe
from provisioner.facts.services import Unit, UnitProbe
from provisioner.model.action import Action, Run, Service
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts
from provisioner.quoting import quote

PERSISTENCED = "nvidia-persistenced.service"
FABRIC_MANAGER = "nvidia-fabricmanager.service"


def persistence(facts: Facts, loads: tuple[str, ...]) -> Iterator[Finding]:
    """nvidia-persistenced enabled and, with loaded modules, running. `loads`: subject of the change that loads
    them, when one is planned."""
    if not any(device.is_card for device in facts.get(PciProbe()) or ()):
        return
    unit = facts.get(UnitProbe(PERSISTENCED))
    if unit is None:
        yield Note(PERSISTENCED, f"{PERSISTENCED} isn't on this host (yet): the driver's packages bring it")
    else:
        yield from _on(PERSISTENCED, unit, facts, loads, "cards stay initialised between their users")


def fabric_manager(facts: Facts, loads: tuple[str, ...]) -> Iterator[Finding]:
    """nvidia-fabricmanager on where an NVSwitch is; off elsewhere, where it can only fail
    (NV_WARN_NOTHING_TO_DO)."""
    switches = [device for device in facts.get(PciProbe()) or () if device.is_switch]
    unit = facts.get(UnitProbe(FABRIC_MANAGER))
    if switches and unit is None:
        yield Note(
            FABRIC_MANAGER, f"{len(switches)} NVSwitches and no {FABRIC_MANAGER}: its package must be locked too"
        )
    elif switches and unit is not None:
        yield from _on(FABRIC_MANAGER, unit, facts, loads, f"{len(switches)} NVSwitches")
    elif unit is not None and (unit.enabled.startswith("enabled") or unit.runs or unit.active == "failed"):
        yield Change(
            subject=FABRIC_MANAGER,
            summary="off: there is no NVSwitch for it",
            kind=Kind.UPDATE,
            actions=(
                _boot(FABRIC_MANAGER, "disable"),
                Service(FABRIC_MANAGER, state="stopped"),
                _forget(FABRIC_MANAGER),
            ),
        )


def _on(name: str, unit: Unit, facts: Facts, loads: tuple[str, ...], why: str) -> Iterator[Finding]:
    if unit.masked:
        yield Note(name, f"{name} is masked, which somebody meant; it stays off")
        return
    # Without modules it can't start; a reboot that is pending starts it.
    start = not unit.runs and unit.active != "" and ("nvidia" in (facts.get(LoadedModules()) or {}) or bool(loads))
    actions: list[Action] = []
    if not unit.is_enabled:
        actions.append(_boot(name, "enable"))
    if start:
        actions.append(Service(name, state="started"))
    if actions:
        yield Change(
            subject=name,
            summary=" and ".join(
                word for word in ("" if unit.is_enabled else "enabled", "started" if start else "") if word
            )
            + f": {why}",
            kind=Kind.UPDATE,
            actions=tuple(actions),
            requires=loads if start else (),
        )


def _boot(name: str, verb: str) -> Run:
    # A reload of systemd's configuration takes the cards away from running containers; the link is enough.
    return Run(f"systemctl --no-reload {verb} {quote(name)}\n", why=f"{verb} {name} for the next boot")


def _forget(name: str) -> Run:
    return Run(
        f"[ ! -d /run/systemd/system ] || systemctl reset-failed {quote(name)} 2>/dev/null || :\n",
        why=f"forget that {name} failed",
    )
