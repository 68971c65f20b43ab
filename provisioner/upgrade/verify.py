"""Does the driver on a host work? Everything is asked anew; that a step ended well proves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioner.facts.driver import LibrariesProbe, LoadedModules, ModulesOnDiskProbe, SmiProbe
from provisioner.facts.gpu import DeviceFilesProbe, DriverProcProbe, PciProbe
from provisioner.facts.host import IdentityProbe
from provisioner.facts.merge import facts_from, merge
from provisioner.facts.selftest import SelfTestProbe
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.model.upgrade import Result
from provisioner.quoting import quote, words
from provisioner.tasks.modules_loading import missing_devices
from provisioner.tasks.packaging.agreement import disagreements
from provisioner.tasks.selftest import CONFIG, PROGRAM
from provisioner.transport.executor import Executor
from provisioner.upgrade.clients import Clients, answer, start_daemons
from provisioner.upgrade.hostops import LOAD, Loaded, load_line, loaded
from provisioner.upgrade.hoststep import Fence, Rows, Step, fields, scripted
from provisioner.upgrade.layout import Layout, layout

PROBES: tuple[Probe[Any], ...] = (
    IdentityProbe(),
    LoadedModules(),
    ModulesOnDiskProbe(),
    LibrariesProbe(),
    SmiProbe(),
    PciProbe(),
    DriverProcProbe(),
    DeviceFilesProbe(),
    SelfTestProbe(),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was looked at. `ok` None: it doesn't count for or against, and `text` says why."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Verified:
    """`result` OK, RETRY_REBOOT (the old driver is still in the kernel) or FAILED, with all evidence."""

    result: Result
    evidence: tuple[Evidence, ...] = ()

    @property
    def reason(self) -> str:
        """What speaks against it: "cards: 1 of 2 are there; …", "" when nothing does."""
        return "; ".join(f"{each.name}: {each.text}" for each in self.evidence if each.ok is False)


@dataclass(frozen=True, slots=True)
class Proof:
    """What the proving script told. `smi`: exit status and answer of nvidia-smi about the driver's version; `fabric`
    version and state of the fabric manager, None without an NVSwitch; `self_test` its exit status and last line,
    None where it isn't installed."""

    loaded: Loaded
    daemons: Clients = field(default_factory=Clients)
    before: Layout = field(default_factory=Layout)
    now: Layout = field(default_factory=Layout)
    smi: tuple[int, str] = (127, "")
    fabric: tuple[str, str] | None = None
    self_test: tuple[int, str] | None = None
    troubles: tuple[str, ...] = ()


def prove(fence: Fence, target: str, *, deadline: int = 90, modules: Sequence[str] = LOAD) -> Step[Proof]:
    """Make the driver complete (modules, its daemons, MIG instances and CDI specs as they were) and put it to the
    test. Does no harm on a host where all of that is so, and is what comes after a restart. `deadline`: seconds of
    the self-test (`selftest.deadline`)."""
    body = f"""\
{load_line(modules)}
if [ -n "$_v" ] && [ "$_v" = {quote(target)} ]; then
{start_daemons()}
mig_back
specs_fresh {quote(target)}
self_test {words([PROGRAM, str(deadline + 30), CONFIG])}
prove
fi"""
    names = ("load", "clients", "layout", "verify")
    return Step(
        "put the driver to the test", scripted(fence, names, body), deadline + 1500.0, lambda r: proof(r, target)
    )


def proof(rows: Rows, target: str) -> Proof:
    """What the script's answer says."""
    smi = fields(rows, "smi-driver")
    fabric = fields(rows, "fabric")
    test = fields(rows, "selftest")
    return Proof(
        loaded=loaded(rows, target),
        daemons=answer(rows),
        before=layout(rows, "before"),
        now=layout(rows, "now"),
        smi=(int(smi[-1][0]), smi[-1][1].strip()) if smi else (127, "it wasn't asked"),
        fabric=(fabric[-1][0], fabric[-1][1]) if fabric else None,
        self_test=(int(test[-1][0]), test[-1][1].strip()) if test else None,
        troubles=tuple(row[0].strip() for row in fields(rows, "trouble")),
    )


def verify(
    executor: Executor,
    fence: Fence,
    target: str,
    *,
    cards: int | None = None,
    deadline: int = 90,
    modules: Sequence[str] = LOAD,
) -> Verified:
    """Prove and read the host, then judge: two executions. `cards`: as many as must be there (`gpu.cards`), None for
    as many as were there before. Raises as `Step.run` does."""
    told = prove(fence, target, deadline=deadline, modules=modules).run(executor)
    done = executor.run(merge(PROBES), timeout=180.0)
    facts = facts_from(executor.host.name, PROBES, done.stdout, time.time())
    return judge(facts, told, target, cards=cards)


def judge(facts: Facts, told: Proof, target: str, *, cards: int | None = None) -> Verified:
    """What all of it means. Pure."""
    if told.loaded.result is not Result.OK:
        return Verified(told.loaded.result, (Evidence("modules", False, told.loaded.reason),))
    evidence = tuple(_evidence(facts, told, target, cards))
    return Verified(Result.FAILED if any(each.ok is False for each in evidence) else Result.OK, evidence)


def _evidence(facts: Facts, told: Proof, target: str, cards: int | None) -> Iterator[Evidence]:
    for probe in PROBES:
        fact = facts.fact(probe)
        if isinstance(fact, Unknown):
            yield Evidence(probe.key, False, f"can't be told: {fact.reason}")
    yield from _versions(facts, told, target)
    yield from _cards(facts, told, cards)
    yield _mig(told)
    yield from _specs(told, target)
    yield from (Evidence("trouble", False, text) for text in told.troubles)
    yield from (Evidence(unit, False, said or "didn't start") for unit, said in told.daemons.failed)
    yield _self_test(facts, told)


def _versions(facts: Facts, told: Proof, target: str) -> Iterator[Evidence]:
    modules = _value(facts, LoadedModules()) or {}
    odd = {name: version for name, version in modules.items() if version not in ("", target)}
    text = ", ".join(f"{name} {version}" for name, version in odd.items()) or f"{target} is loaded"
    yield Evidence("modules", modules.get("nvidia") == target and not odd, text)
    disk = _value(facts, ModulesOnDiskProbe())
    there = disk.modules["nvidia"].version if disk is not None and "nvidia" in disk.modules else "missing"
    yield Evidence("module on disk", there == target, there)
    libraries = _value(facts, LibrariesProbe()) or ()
    wrong = list(disagreements(libraries, _value(facts, SmiProbe()), target))
    yield Evidence("libraries", not wrong, "; ".join(each.what for each in wrong) or target)
    rc, said = told.smi
    yield Evidence("nvidia-smi", rc in (0, 14) and said == target, said if rc in (0, 14) else f"status {rc}: {said}")
    if told.fabric is not None:
        version, state = told.fabric
        good = version == target and state == "active"
        yield Evidence("fabric manager", good, f"{version or 'of unknown version'}, {state}")


def _cards(facts: Facts, told: Proof, cards: int | None) -> Iterator[Evidence]:
    listed = len(told.now.cards)
    on_bus = sum(device.is_card and device.driver != "vfio-pci" for device in _value(facts, PciProbe()) or ())
    want = cards if cards is not None else len(told.before.cards) or on_bus
    good = listed == want and not told.now.trouble
    yield Evidence("cards", good, told.now.trouble or f"{listed} of {want} are there ({on_bus} on the bus)")
    driver, files = _value(facts, DriverProcProbe()), _value(facts, DeviceFilesProbe())
    if driver is not None and files is not None:
        wrong = missing_devices(driver, files)
        yield Evidence("device files", not wrong, f"missing or stale: {', '.join(wrong)}" if wrong else "all there")


def _mig(told: Proof) -> Evidence:
    before, now = told.before.mig, told.now.mig
    if not before and not now:
        return Evidence("MIG", None, "not used")
    wrong = [uuid for uuid in {**before, **now} if sorted(before.get(uuid, ())) != sorted(now.get(uuid, ()))]
    text = "; ".join(f"{uuid} had {_profiles(before, uuid)}, has {_profiles(now, uuid)}" for uuid in wrong)
    return Evidence("MIG", not wrong, text or "the instances are as before")


def _profiles(of: Mapping[str, tuple[str, ...]], uuid: str) -> str:
    return " ".join(of.get(uuid, ())) or "none"


def _specs(told: Proof, target: str) -> Iterator[Evidence]:
    for path, before in told.before.specs.items():
        now = told.now.specs.get(path)
        if now is None:
            yield Evidence("CDI", False, f"{path} was there before and isn't now")
            continue
        gone = [name for name in before.devices if name not in now.devices and not name.startswith("MIG-")]
        if gone:
            yield Evidence("CDI", False, f"{path} no longer has {', '.join(gone)}")
    for path, now in told.now.specs.items():
        old = [version for version in now.drivers if version != target]
        yield Evidence("CDI", not old, f"{path} names libraries of {', '.join(old) or target}")


def _self_test(facts: Facts, told: Proof) -> Evidence:
    last = _value(facts, SelfTestProbe())
    if told.self_test is None or last is None:
        return Evidence("self-test", None, "isn't installed on this host")
    if last.disabled or last.result == "off":
        return Evidence("self-test", None, "is switched off on this host")
    rc, said = told.self_test
    if rc != 0:
        return Evidence("self-test", False, f"it ended with {rc}: {said}")
    if last.result == "fail" and last.trusted != last.version:
        return Evidence("self-test", None, f"{last.text}; a test not yet seen to pass here only observes")
    # Unknown is no proof of a fault: python3 may be missing. What it would have proven, the rest of this does.
    return Evidence("self-test", {"pass": True, "fail": False}.get(last.result), last.text)


def _value(facts: Facts, probe: Probe[Any]) -> Any:
    fact = facts.fact(probe)
    return fact.value if isinstance(fact, Known) else None
