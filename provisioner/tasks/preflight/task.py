"""Task `gpu.preflight`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from provisioner.model.change import Finding
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.preflight import cards, kernels, owner, packages, system, versions
from provisioner.tasks.preflight.check import Check
from provisioner.tasks.preflight.wanted import Wanted
from provisioner.tasks.task import Task, task

CHECKS: tuple[Check, ...] = (
    *owner.CHECKS,
    *system.CHECKS,
    *cards.CHECKS,
    *packages.CHECKS,
    *kernels.CHECKS,
    *versions.CHECKS,
)
"""All checks, in the order in which their verdicts are shown."""


@task("gpu.preflight")
class Preflight(Task):
    """Look at a host before anything changes, and refuse what can't end well.

    Changes nothing. What is wrong stops the host's whole plan, with what was found, why that stops and what to
    do; what can't be read stops it too. Wishes come from the inventory (`versions.*`, `gpu.cards`,
    `gpu.cuda_max`, `driver.*`, `containerd.enable_cdi`). With --allow-no-gpu a host may be without cards; those it
    has are checked all the same. `driver.modules = "prebuilt"` says that packages bring built kernel modules, so
    that no headers are asked for. `space` changes how many MiB must be free where.

        [[stages]]
        name = "preflight"
        [[stages.tasks]]
        task = "gpu.preflight"
        space = { "/" = 1024, "/boot" = 100, "/var" = 1536 }
    """

    space: Mapping[str, int] = field(default_factory=dict)

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        for check in CHECKS:
            yield from check.reads

    def wanted(self, ctx: Context) -> Wanted:
        """What the inventory wants of this host. Raises PlaybookError for values that mean nothing."""
        return Wanted.of(ctx, self.space)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        wanted = self.wanted(ctx)
        for check in CHECKS:
            yield from check.run(facts, wanted)
