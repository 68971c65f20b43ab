"""What must hold on a host before a roll touches the first node: pure, over what was read and fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from provisioner.errors import FactUnknown
from provisioner.facts.boot import KernelsProbe
from provisioner.facts.driver import LoadedModules, ModulesOnDiskProbe
from provisioner.facts.gpu import PciProbe
from provisioner.facts.host import IdentityProbe
from provisioner.facts.merge import unique
from provisioner.facts.packages import PackagesProbe, PackageState
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.model.lock import Closure, Role
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.choose import backend_for
from provisioner.tasks.packaging.closure_on_host import difference
from provisioner.tasks.packaging.stack import Stack, stack, stack_probes
from provisioner.tasks.packaging.versions import upstream
from provisioner.tasks.preflight.task import CHECKS as PREFLIGHT
from provisioner.tasks.preflight.wanted import Wanted
from provisioner.upgrade.layout import Visible, VisibleProbe
from provisioner.upgrade.prefetch import Fetched
from provisioner.upgrade.requirements import ImageNeed, fulfilled

FABRIC_MANAGER = re.compile(r"nvidia-fabric-?manager(-\d+)?")
MUST_FOLLOW = ("nvidia_peermem", "nvidia_fs")
"""Modules beside the driver's own that are built against it and are loaded again after it."""

PROBES: tuple[Probe[Any], ...] = unique(
    (
        *(probe for check in PREFLIGHT for probe in check.reads),
        *stack_probes(),
        *(
            VisibleProbe(),
            IdentityProbe(),
            LoadedModules(),
            ModulesOnDiskProbe(),
            PciProbe(),
            PackagesProbe(),
            KernelsProbe(),
        ),
    )
)
"""What must be read for `check_host`."""


@dataclass(frozen=True, slots=True)
class HostCheck:
    """`state` "ready"; "left out": nothing is to be done there; "refused": it can't end well, `refusals` say why.
    `source` is the driver (or toolkit) there now, `target` what it gets; `notes` are for the plan."""

    host: str
    state: Literal["ready", "left out", "refused"]
    source: str = ""
    target: str = ""
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why it isn't ready, one line."""
        if self.state == "left out":
            return self.notes[0] if self.notes else ""
        return "; ".join(f"{each.what} ({each.why})" if each.why else each.what for each in self.refusals)


def source_version(facts: Facts, kind: Role = "driver") -> str:
    """The driver that the kernel has, else the one on disk; the toolkit as its package says; "" for none."""
    if kind == "toolkit":
        version = facts.need(PackagesProbe()).version("nvidia-container-toolkit")
        return upstream(version) if version else ""
    loaded = (facts.get(LoadedModules()) or {}).get("nvidia", "")
    disk = facts.get(ModulesOnDiskProbe())
    return loaded or (disk.modules["nvidia"].version if disk is not None and "nvidia" in disk.modules else "")


def next_kernels(facts: Facts) -> tuple[str, ...]:
    """Kernels besides the running one for which the installation must bring a module: what boots next."""
    kernels = facts.get(KernelsProbe())
    return tuple(kernel.release for kernel in kernels.both[1:]) if kernels is not None else ()


def nothing_to_do(facts: Facts, have: Stack, kind: Role) -> bool:
    """Is the host at its target already, in the kernel too?"""
    driver = have.closure.driver if kind == "driver" else ""
    if difference(have.closure.role(kind), have.state, have.backend, driver=driver).moves:
        return False
    return kind == "toolkit" or source_version(facts) == have.closure.driver


def check_host(
    facts: Facts,
    ctx: Context,
    fetched: Fetched | None = None,
    *,
    kind: Role = "driver",
    images: Sequence[ImageNeed] = (),
    rollback: Literal["auto", "never"] = "auto",
) -> HostCheck:
    """Is this host ready for its target, the one that `ctx` and its lock want?

    `fetched` None: nothing was fetched yet, so this is asked before fetching; `images` of the pods
    that run there. What can't be told refuses the host; it never raises for one.
    """
    try:
        have = stack(facts, ctx)
        if isinstance(have, Refusal):
            return HostCheck(facts.host, "refused", refusals=(have,))
        source, target = source_version(facts, kind), _target(have, kind)
        if nothing_to_do(facts, have, kind):
            return HostCheck(facts.host, "left out", source, target, notes=(f"has {kind} {target} already",))
        found = [
            *_preflight(facts, ctx, have),
            *_possible(facts, have, source, kind),
            *_fabric(facts, have, kind),
            *_images(images, have.closure.driver, kind),
            *(_fetched(fetched, source, kind, rollback) if fetched is not None else ()),
            *_consequences(facts, have, kind),
        ]
    except FactUnknown as error:
        refusal = Refusal("facts", error.what, error.why, error.remedy)
        return HostCheck(facts.host, "refused", refusals=(refusal,))
    refusals = tuple(each for each in found if isinstance(each, Refusal))
    notes = tuple(each.text for each in found if isinstance(each, Note))
    return HostCheck(facts.host, "refused" if refusals else "ready", source, target, refusals, notes)


def _target(have: Stack, kind: Role) -> str:
    return have.closure.driver if kind == "driver" else have.closure.toolkit


def _preflight(facts: Facts, ctx: Context, have: Stack) -> Iterator[Refusal | Note]:
    """The checks of `apply`, for the target: room, cards and flavour, modules for the kernels that boot, Secure
    Boot, CUDA, containerd, and who else owns the driver."""
    closure = have.closure
    wanted = replace(Wanted.of(ctx, {}), driver=closure.driver, flavour=closure.flavour, toolkit=closure.toolkit)
    for check in PREFLIGHT:
        yield from check.run(facts, wanted)


def _possible(facts: Facts, have: Stack, source: str, kind: Role) -> Iterator[Refusal]:
    if have.state.manager != "apt":
        yield Refusal(
            "packages",
            f"packages of {have.state.manager} can't be rolled yet",
            "they are planned only; installing through dnf comes next",
            "leave this host out (--limit)",
        )
    if not facts.need(IdentityProbe()).systemd:
        yield Refusal("systemd", "systemd doesn't run here", "its units are stopped and started", "boot the host")
    if not source:
        yield Refusal(
            kind, f"there is no {kind} to upgrade", "none is installed", "`provision apply` brings the first one"
        )


def _fabric(facts: Facts, have: Stack, kind: Role) -> Iterator[Refusal | Note]:
    """A fabric manager of another version than the driver refuses to work (NVIDIA/gpu-operator#544), and without one
    CUDA doesn't start on NVSwitch machines."""
    if kind != "driver":
        return
    switches = sum(device.is_switch for device in facts.get(PciProbe()) or ())
    locked = [package for package in have.closure.packages if FABRIC_MANAGER.fullmatch(package.name)]
    if not switches:
        return
    if not locked:
        there = _installed(have.state, FABRIC_MANAGER)
        yield Refusal(
            "fabric manager",
            f"the lock has no fabric manager, and {switches} NVSwitches need one of driver {have.closure.driver}",
            f"installed is {there or 'none'}; another version than the driver's refuses to work",
            "name its package in driver.packages and run `provision lock`",
        )
    elif upstream(locked[0].version) != have.closure.driver:
        yield Refusal(
            "fabric manager",
            f"the locked fabric manager is {locked[0].version}, the driver {have.closure.driver}",
            "another version than the driver's refuses to work",
            "run `provision lock` anew",
        )
    else:
        yield Note("fabric manager", f"the fabric manager goes to {locked[0].version} with the driver")


def _installed(state: PackageState, pattern: re.Pattern[str]) -> str:
    return ", ".join(
        f"{package.name} {package.version}"
        for package in state.packages.values()
        if package.installed and pattern.fullmatch(package.name)
    )


def _images(images: Sequence[ImageNeed], driver: str, kind: Role) -> Iterator[Refusal | Note]:
    if kind != "driver":
        return
    for need in images:
        answer = fulfilled(need.requirement, driver)
        if answer is False:
            yield Refusal(
                "CUDA",
                f"driver {driver} doesn't fulfil what {need.pod} demands",
                f"its image says {need.requirement.split()[0]}",
                "take a newer driver, or an older image",
            )
        elif answer is None:
            first = need.requirement.split()[0]
            yield Note("CUDA", f"can't tell whether driver {driver} fulfils {first} of {need.pod}")


def _fetched(fetched: Fetched, source: str, kind: Role, rollback: str) -> Iterator[Refusal | Note]:
    if not fetched.target.ready:
        yield Refusal(
            "packages",
            f"the packages of {kind} {fetched.target.version} aren't on the host",
            fetched.target.reason,
            "mend the repository or free some room, then begin again",
        )
    previous = fetched.previous
    why = previous.reason
    if not why and not any(upstream(package.version) == source for package in previous.packages):
        why = f"what is installed isn't the {kind} {source} that is loaded"
    if not why:
        return
    if rollback == "never":
        yield Note("way back", f"no way back to {source}: {why}")
    else:
        yield Refusal(
            "way back",
            f"no way back: the packages of {kind} {source or 'now installed'} can't be kept",
            why,
            "bring the old version back into a repository of this host, or accept it with --rollback never",
        )


def _consequences(facts: Facts, have: Stack, kind: Role) -> Iterator[Note]:
    closure: Closure = have.closure
    found = difference(closure.role(kind), have.state, backend_for(have.state), driver=closure.driver)
    if kind == "driver" and found.remove:
        yield Note("packages", f"goes with the old driver: {', '.join(found.remove)}")
    toolkit = have.state.version("nvidia-container-toolkit")
    if kind == "driver" and toolkit is not None and upstream(toolkit) != closure.toolkit:
        yield Note("toolkit", f"the toolkit stays {upstream(toolkit)}; the lock has {closure.toolkit}")
    loaded = facts.get(LoadedModules()) or {}
    others = [name for name in MUST_FOLLOW if name in loaded]
    if kind == "driver" and others:
        yield Note("modules", f"{', '.join(others)} must load with the new driver too")
    seen = facts.get(VisibleProbe()) or Visible()
    if kind == "driver" and seen.specs:
        yield Note("CDI", f"{', '.join(seen.specs)} will be generated anew")
    if kind == "driver" and seen.instances:
        yield Note("MIG", f"{seen.instances} MIG instances are lost on the way and put back")
