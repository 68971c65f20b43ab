"""May this change be done now? Disruption against what runs on the host. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provisioner.facts.workload import Workload, WorkloadProbe
from provisioner.model.change import Change, Disruption
from provisioner.model.fact import Facts, Known, Unknown
from provisioner.tasks.context import Context


def gate(change: Change, facts: Facts, ctx: Context) -> Change:
    """The change as it is, or deferred with the reason and the command that does it."""
    if change.deferred is not None or change.disruption is Disruption.NONE or ctx.options.drained:
        return change
    limit: tuple[str, ...] = ("--limit", ctx.host.name)
    workload = facts.fact(WorkloadProbe())
    kubelet = workload.value.kubelet if isinstance(workload, Known) else ""
    if change.disruption is Disruption.REBOOT:
        if isinstance(workload, Unknown):
            # Consent is for what is known: nobody can tell whether a kubelet is active here.
            return change.defer(
                f"needs a reboot, and what runs can't be told: {workload.reason}", ctx.command("plan", *limit)
            )
        if kubelet:
            return change.defer(
                f"needs a reboot, and {kubelet} is active: the node must be drained first",
                ctx.command("upgrade-driver", "--deferred", *limit),
            )
        if not ctx.options.reboot:
            return change.defer("needs a reboot", ctx.command("apply", *limit, "--reboot"))
        limit = (*limit, "--reboot")
    if isinstance(workload, Unknown):
        if not ctx.options.disruptive:
            return change.defer(
                f"{change.disrupts or 'disturbs what runs'}, and what runs can't be told: {workload.reason}",
                ctx.command("apply", *limit, "--disruptive"),
            )
    elif isinstance(workload, Known) and workload.value.busy and not ctx.options.disruptive:
        # A node of a cluster is drained by a roll; elsewhere only a person knows what may be hurt.
        command = ctx.command("upgrade-driver", "--deferred", *limit) if kubelet else ""
        command = command or ctx.command("apply", *limit, "--disruptive")
        return change.defer(busy_reason(change, workload.value), command)
    return change


def busy_reason(change: Change, workload: Workload) -> str:
    """Why a busy host keeps a change waiting."""
    return f"{change.disrupts or 'disturbs what runs'}, and {workload.text} would be hurt: drain the node first"


def follow_requirements(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes that require a deferred one wait as well. Order is kept."""
    result: list[Change] = []
    waiting: dict[str, str] = {}
    for change in changes:
        if change.deferred is None:
            for needed in change.requires:
                full = needed if "/" in needed and ":" in needed else f"{change.stage}/{change.task}:{needed}"
                if full in waiting:
                    change = change.defer(f"waits for {full}", waiting[full])
                    break
        if change.deferred is not None:
            waiting[change.id] = change.deferred.command
        result.append(change)
    return tuple(result)


def of_stage(changes: Iterable[Change], stage: str, command: str) -> tuple[Change, ...]:
    """The changes of one stage alone. What requires an open change of another stage waits for it, with `command`."""
    others = (
        change if change.stage == stage or change.deferred else change.defer("of another stage", command)
        for change in changes
    )
    return tuple(change for change in follow_requirements(others) if change.stage == stage)


def named(change: Change, stage: str, task: str) -> Change:
    """The change with its place in the playbook, from which its id is made."""
    return replace(change, stage=stage, task=task)
