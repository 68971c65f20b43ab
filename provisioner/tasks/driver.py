"""Task `driver`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from provisioner.facts.driver import LibrariesProbe, LoadedModules, ModulesOnDiskProbe, SmiProbe
from provisioner.facts.files import FileProbe
from provisioner.facts.host import IdentityProbe
from provisioner.model.change import Change, Deferral, Disruption, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.packaging import told
from provisioner.tasks.packaging.agreement import disagreements, module_findings
from provisioner.tasks.packaging.apt import PREFERENCES
from provisioner.tasks.packaging.closure_on_host import difference, package_change, strangers
from provisioner.tasks.packaging.stack import Stack, other_driver, stack, stack_probes
from provisioner.tasks.task import Task, task


@task("driver")
class Driver(Task):
    """The driver's packages at the locked versions, held, and proven: modules, libraries and nvidia-smi agree.

    Installed are the packages of the lock's closure for this host's distribution, all by name and version in one
    transaction, with what other driver versions left behind removed. A host on which another version is loaded
    waits for `provision upgrade-driver`. `module = false` leaves out the check of the kernel modules on disk, for
    hosts whose modules come another way.

        [[stages.tasks]]
        task = "driver"
    """

    module: bool = True

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from stack_probes()
        yield from (IdentityProbe(), LibrariesProbe(), SmiProbe(), FileProbe(PREFERENCES))
        if self.module:
            yield ModulesOnDiskProbe()

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = stack(facts, ctx)
        if isinstance(have, Refusal):
            yield have
            return
        driver = have.closure.driver
        found = difference(have.closure.role("driver"), have.state, have.backend, driver=driver)
        change = package_change(found, have.state, have.backend, what="driver", version=driver, lists=have.lists(ctx))
        if change is not None:
            wait = other_driver(facts, ctx, driver) if found.moves else None
            yield replace(change, deferred=wait)
            yield from _held_before(facts, have, [package.name for package in found.wrong])
        if found.moves:
            return
        alone = strangers(have.state, {package.name for package in have.closure.packages}, driver)
        if alone:
            yield Note("packages", f"not in the lock, so not held: {', '.join(alone)} (driver.packages can name them)")
        yield from self._proven(facts, ctx, driver, have.closure.flavour)

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        return {"driver": told.driver(facts, ctx)}

    def _proven(self, facts: Facts, ctx: Context, driver: str, flavour: str) -> Iterator[Finding]:
        """Success of the package manager proves nothing about a module or a library."""
        if self.module:
            if ctx.options.local and not facts.need(IdentityProbe()).systemd:
                yield Note("modules", "not checked: in an image build the running kernel isn't the image's")
            else:
                yield from module_findings(facts.need(ModulesOnDiskProbe()), driver, flavour)
        libraries = facts.need(LibrariesProbe())
        yield from disagreements(libraries, facts.get(SmiProbe()), driver)
        waiting = other_driver(facts, ctx, driver)
        if waiting is not None:
            version = (facts.get(LoadedModules()) or {}).get("nvidia", "")
            yield Change(
                subject="loaded driver",
                summary=f"{version} is loaded, {driver} is installed",
                kind=Kind.UPDATE,
                actions=(),
                disruption=Disruption.DRAIN,
                disrupts="unloads the driver, or restarts the host",
                deferred=Deferral(waiting.reason, waiting.command),
            )


def _held_before(facts: Facts, have: Stack, moved: Iterable[str]) -> Iterator[Note]:
    """Holds of a person on packages that move: they are lifted, and set again on the locked versions."""
    held = sorted(have.state.holds.intersection(moved))
    if held and facts.get(FileProbe(PREFERENCES)) is None:
        yield Note("holds", f"held before by someone: {', '.join(held)}; held again at the locked version")
