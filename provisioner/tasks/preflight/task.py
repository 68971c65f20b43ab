"""Task `gpu.preflight`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from provisioner.model.change import Finding
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.preflight import cards, system
from provisioner.tasks.preflight.check import Check
from provisioner.tasks.preflight.wanted import Wanted
from provisioner.tasks.task import Task, task

CHECKS: tuple[Check, ...] = (*system.CHECKS, *cards.CHECKS)
"""All checks, in the order in which their verdicts are shown."""


@task("gpu.preflight")
class Preflight(Task):
    """Look at a host before anything changes, and refuse what can't end well.

    Changes nothing. What is wrong stops the host's whole plan, with what was found, why that stops and what to
    do; what can't be read stops it too. Wishes come from the inventory (`versions.*`, `gpu.cards`,
    `gpu.cuda_max`, `driver.*`).

        [[stages]]
        name = "preflight"
        [[stages.tasks]]
        task = "gpu.preflight"
    """

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        for check in CHECKS:
            yield from check.reads

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        wanted = Wanted.of(ctx)
        for check in CHECKS:
            yield from check.run(facts, wanted)
