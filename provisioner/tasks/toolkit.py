"""Task `toolkit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioner.model.change import Finding, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.packaging import told
from provisioner.tasks.packaging.closure_on_host import difference, package_change
from provisioner.tasks.packaging.stack import stack, stack_probes
from provisioner.tasks.task import Task, task


@task("toolkit")
class Toolkit(Task):
    """nvidia-container-toolkit and its three companion packages at one locked version, held.

    Version and packages come from the lock (`versions.toolkit`, `provision lock`).

        [[stages.tasks]]
        task = "toolkit"
    """

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        return stack_probes()

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = stack(facts, ctx)
        if isinstance(have, Refusal):
            yield have
            return
        found = difference(have.closure.role("toolkit"), have.state, have.backend)
        change = package_change(
            found, have.state, have.backend, what="toolkit", version=have.closure.toolkit, lists=have.lists(ctx)
        )
        if change is not None:
            yield change

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        return {"toolkit": told.toolkit(facts, ctx)}
