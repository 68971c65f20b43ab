"""What `apply` deferred on a busy node, done by a roll once the node is drained: restarts of services, reboots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provisioner.engine.hostrun import HostRun
from provisioner.engine.planning import HostSteps, plan_host
from provisioner.errors import LeaseError
from provisioner.facts.driver import LoadedModules
from provisioner.model.change import Change, Disruption
from provisioner.model.event import Event
from provisioner.model.fact import Facts
from provisioner.model.result import Status
from provisioner.model.upgrade import Result
from provisioner.upgrade.hoststep import Fence, guard
from provisioner.upgrade.member import Member


def waiting(steps: HostSteps, facts: Facts) -> tuple[Change, ...]:
    """The changes of this host that a drained node lets through. Raises FactUnknown, ValueError."""
    plan = plan_host(drained(steps), facts)
    if plan.blocked:
        return ()
    return tuple(change for change in plan.open if change.disruption is not Disruption.NONE)


def drained(steps: HostSteps) -> HostSteps:
    """The same wishes, with the consent that a drained node gives."""
    options = replace(steps.ctx.options, disruptive=True, reboot=True, drained=True)
    return replace(steps, ctx=replace(steps.ctx, options=options))


def loaded(facts: Facts) -> str:
    """The driver that is loaded, "" for none."""
    return (facts.get(LoadedModules()) or {}).get("nvidia", "")


def apply(member: Member, steps: HostSteps, stages: Sequence[str], fence: Fence) -> tuple[Result, str]:
    """Do what waits, stage by stage, as `apply --disruptive --reboot` would; done again it finds nothing left.
    Raises LeaseLost where a later roll has worked on the host."""
    run = HostRun(drained(steps), member.executor, member.secrets, _silent, fence.run, fence.who, guard(fence))
    run.observe()
    run.approve(run.plan)
    for number, stage in enumerate(stages):
        run.apply(stage, last=not any(run.due(later) for later in stages[number + 1 :]))
    if isinstance(run.error, LeaseError):
        raise run.error
    result = run.result()
    well = result.status in (Status.OK, Status.CHANGED)
    return (Result.OK if well else Result.FAILED), "" if well else result.message


def _silent(event: Event) -> None:
    """The roll tells its own phases."""
