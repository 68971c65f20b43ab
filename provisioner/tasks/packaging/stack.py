"""What the driver, toolkit and pin tasks read and decide alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provisioner.facts.driver import LoadedModules
from provisioner.facts.host import SystemProbe
from provisioner.facts.packages import LockHolderProbe, PackagesProbe, PackageState
from provisioner.model.change import Deferral, Refusal
from provisioner.model.fact import Facts, Known, Probe
from provisioner.model.lock import Closure
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.backend import Backend
from provisioner.tasks.packaging.choose import backend_for
from provisioner.tasks.packaging.locked import closure_for, wanted
from provisioner.tasks.packaging.names import STACK


@dataclass(frozen=True)
class Stack:
    """The host's closure and packages."""

    closure: Closure
    state: PackageState
    backend: Backend

    def lists(self, ctx: Context) -> tuple[str, ...]:
        """Which lists to read anew before an installation: what holds the driver and the toolkit."""
        if self.closure.source != "nvidia" or not ctx.repositories:
            return ("*",)
        return tuple(repository.name for repository in ctx.repositories)


def stack_probes() -> Iterator[Probe[Any]]:
    """What `stack` and `other_driver` need."""
    yield SystemProbe()
    yield PackagesProbe()
    yield LockHolderProbe()
    yield LoadedModules()


def stack(facts: Facts, ctx: Context) -> Stack | Refusal:
    """The host's closure, or why nothing can be installed."""
    want = wanted(ctx, facts.need(SystemProbe()))
    for name, value in (("versions.driver", want.driver), ("versions.toolkit", want.toolkit)):
        if not value:
            return Refusal("lock", f"{name} isn't set", "one exact version is installed on all hosts", "set it")
    closure = closure_for(ctx.lock, want)
    if isinstance(closure, str):
        return Refusal(
            "lock", f"no locked packages for {want.text}", closure, f"{ctx.command('lock')} finds and writes them"
        )
    state = facts.need(PackagesProbe())
    refusal = unfinished(facts)
    if refusal is not None:
        return refusal
    return Stack(closure, state, backend_for(state))


def unfinished(facts: Facts) -> Refusal | None:
    """Why the package manager would refuse new work, or None. Packages of the stack that were left in the middle
    count as not installed instead: installing them at the locked version is what mends them. While someone else's
    transaction runs, its packages look like that too, and ours will wait for it."""
    state = facts.need(PackagesProbe())
    broken = [name for name in state.broken if not STACK.fullmatch(name)]
    if isinstance(facts.fact(LockHolderProbe()), Known) or (not state.interrupted and not broken):
        return None
    what = ", ".join(broken) if broken else "dpkg was interrupted"
    return Refusal(
        "packages",
        f"the package database is in the middle of something: {what}",
        "an earlier transaction didn't end, and no new one can begin",
        "on the host: dpkg --configure -a && apt-get -f install, then plan again",
    )


def other_driver(facts: Facts, ctx: Context, driver: str) -> Deferral | None:
    """The deferral when a driver of another version is loaded: its libraries can't be replaced below it."""
    loaded = facts.get(LoadedModules())
    version = loaded.get("nvidia") if loaded else None
    if version is None or version == driver:
        return None
    return Deferral(
        f"driver {version or 'of unknown version'} is loaded: needs a drained node", ctx.command("upgrade-driver")
    )
