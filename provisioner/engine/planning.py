"""Tasks and facts → one host's plan. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from provisioner.engine.gate import follow_requirements, gate, named
from provisioner.errors import FactUnknown, PlaybookError, ProvisionError
from provisioner.facts.host import IdentityProbe, SystemProbe
from provisioner.facts.workload import WorkloadProbe
from provisioner.model.action import touched
from provisioner.model.change import Change, Note, Refusal
from provisioner.model.fact import Facts, Known, Probe
from provisioner.model.plan import HostPlan
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task


@dataclass(frozen=True)
class Step:
    """A task at its place. `condition` answers the task's `when` from facts (always true without one)."""

    stage: str
    label: str
    task: Task
    condition: Any = None

    def wanted(self, facts: Facts) -> bool:
        """Does `when` hold? Raises FactUnknown when it depends on a fact that couldn't be read."""
        return True if self.condition is None else bool(self.condition(facts))


@dataclass(frozen=True)
class HostSteps:
    """Everything that is desired of one host."""

    ctx: Context
    steps: tuple[Step, ...]

    def probes(self) -> tuple[Probe[Any], ...]:
        """What all tasks together must know."""
        return tuple(probe for step in self.steps for probe in step.task.probes(self.ctx))


def plan_host(wanted: HostSteps, facts: Facts) -> HostPlan:
    """What differs on this host, gated by what runs there. A refusal or an unknown fact blocks the host, but the
    tasks behind it are still planned, so that the plan shows all there is to say."""
    changes: list[Change] = []
    refusals: list[Refusal] = []
    notes: list[Note] = []
    unknown: list[tuple[str, str, str]] = []
    for step in wanted.steps:
        ctx = replace(wanted.ctx, pending=pending(changes), planned=tuple(change.id for change in changes))
        try:
            if not step.wanted(facts):
                continue
            for finding in step.task.plan(facts, ctx):
                match finding:
                    case Change():
                        changes.append(gate(named(finding, step.stage, step.label), facts, ctx))
                    case Refusal():
                        refusals.append(replace(finding, stage=step.stage, task=step.label))
                    case Note():
                        notes.append(replace(finding, stage=step.stage, task=step.label))
        except FactUnknown as error:
            unknown.append((step.stage, step.label, str(error)))
        except Exception as error:
            if isinstance(error, ProvisionError) or type(step.task).__module__.startswith("provisioner."):
                raise
            unknown.append((step.stage, step.label, blame(step.task, error)))
    identity = facts.fact(IdentityProbe())
    return HostPlan(
        host=wanted.ctx.host.name,
        changes=follow_requirements(distinct(changes)),
        refusals=tuple(refusals),
        notes=tuple(notes),
        unknown=tuple(unknown),
        identity=identity.value.text if isinstance(identity, Known) else "",
    )


def blame(task: Task, error: Exception) -> str:
    """A site's own task went wrong: where and how. The host's plan stops there, other hosts go on."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    why = f"{type(error).__name__}: {error}\n  {last.filename}:{last.lineno}: {last.line}"
    return f"the site's task {task.name} broke off\n  {why}\n  mend the task; `assert_settles` tries it without a host"


def pending(changes: Iterable[Change]) -> dict[str, str]:
    """Path → id of the change that will write or remove it, of those that aren't deferred."""
    return {path: change.id for change in changes if change.deferred is None for path in touched(change.actions)}


def distinct(changes: Iterable[Change]) -> Sequence[Change]:
    """Raises PlaybookError when two changes have one id: a plan couldn't tell them apart."""
    result = list(changes)
    seen: set[str] = set()
    for change in result:
        if change.id in seen:
            raise PlaybookError(
                f"two changes are named {change.id}",
                why="two tasks of one stage want something of the same thing",
                remedy="give one of the two tasks a label of its own, or take it out",
            )
        seen.add(change.id)
    return result


def condition_names(facts: Facts) -> dict[str, Any]:
    """The facts that a `when` may ask for. Only those that were read; a missing one is unknown, never false."""
    names: dict[str, Any] = {}
    system, identity, workload = (facts.fact(probe) for probe in (SystemProbe(), IdentityProbe(), WorkloadProbe()))
    if isinstance(system, Known):
        names |= {
            "distribution": system.value.distribution,
            "family": system.value.family,
            "arch": system.value.arch,
        }
    if isinstance(identity, Known):
        names["systemd"] = identity.value.systemd
    if isinstance(workload, Known):
        names["kubelet"] = workload.value.kubelet
    return names
