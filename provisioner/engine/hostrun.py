"""One host through a run: observed, planned, changed stage by stage, observed again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from provisioner.engine.compile import GOING_BACK
from provisioner.engine.observe import generation, observe
from provisioner.engine.planning import HostSteps, plan_host
from provisioner.engine.reboot import needs_reboot, wait_for_boot
from provisioner.engine.secrets import Secrets
from provisioner.engine.stage import run_stage
from provisioner.errors import ProvisionError, TransportError
from provisioner.model.change import Change, Deferral, Disruption
from provisioner.model.event import Event, EventKind, Monitor
from provisioner.model.fact import Facts
from provisioner.model.plan import HostPlan
from provisioner.model.result import HostResult, Outcome, Status
from provisioner.transport.executor import Executor

NEW_SINCE = "wasn't in the plan that was shown"


def said(change: Change) -> str:
    """One line that names what a change changes."""
    return change.summary if change.subject in change.summary else f"{change.subject}: {change.summary}"


def counted(number: int) -> str:
    """ "1 change", "2 changes"."""
    return f"{number} change{'' if number == 1 else 's'}"


def digest(change: Change) -> str:
    """SHA-256 of what a change does; two plans agree on a change when id and digest agree."""
    return hashlib.sha256(repr((change.actions, change.disruption)).encode("utf-8", "surrogateescape")).hexdigest()


@dataclass
class HostRun:
    """The state of one host during a run. Used by one thread at a time. `guard`: what each of its scripts begins with,
    see `compile_stage`."""

    wanted: HostSteps
    executor: Executor
    secrets: Secrets
    monitor: Monitor
    run: str
    who: str
    guard: str = ""
    facts: Facts | None = None
    plan: HostPlan | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    error: ProvisionError | None = None
    stopped: str = ""
    approved: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return self.wanted.ctx.host.name

    def tell(self, kind: EventKind, text: str = "", *, stage: str = "", change: str = "", **data: object) -> None:
        """One event of this host."""
        self.monitor(Event(kind, time.time(), self.name, stage, change, text, dict(data)))

    def observe(self, *, release: bool = False) -> None:
        """Read and plan. A transport error is kept in `error` and shown in the plan."""
        try:
            if not self.executor.connections:
                self.tell("host-connecting")
            self.tell("host-observing")
            self.facts = observe(self.executor, self.wanted.probes(), self.secrets, release=self.run if release else "")
            self.plan = self._announced(plan_host(self.wanted, self.facts))
            self.tell("host-planned", f"{counted(len(self.plan.open))}, {len(self.plan.deferred)} deferred")
        except TransportError as error:
            self.error = error
            self.plan = HostPlan(self.name, error=str(error), error_kind=type(error).__name__)
            self.tell("host-failed", str(error))

    def approve(self, plan: HostPlan | None) -> None:
        """Only what this plan shows will be done: the same change, or one that was announced as provisional."""
        self.approved = {change.id: (digest(change), change.provisional) for change in (plan.open if plan else ())}

    def _announced(self, plan: HostPlan) -> HostPlan:
        """During a run: changes that nobody was shown wait instead of being done."""
        if not self.outcomes:
            return plan
        changes = []
        for change in plan.changes:
            known = self.approved.get(change.id)
            shown = known is not None and (known[1] or known[0] == digest(change))
            if change.deferred is None and not shown:
                change = replace(
                    change, deferred=Deferral(NEW_SINCE, self.wanted.ctx.command("apply", "--limit", self.name))
                )
            changes.append(change)
        return replace(plan, changes=tuple(changes))

    def due(self, stage: str) -> tuple[Change, ...]:
        """What this stage will do on this host now."""
        if self.plan is None or self.plan.blocked or self.error or self.stopped or self.failed:
            return ()
        return tuple(change for change in self.plan.open if change.stage == stage and change.id in self.approved)

    @property
    def broken(self) -> bool:
        """Did a change or the connection fail?"""
        return self.error is not None or any(not outcome.ok for outcome in self.outcomes)

    @property
    def failed(self) -> bool:
        """Did it go wrong here, also by what the last reading says? Such a host goes no further, and counts among
        those that keep the others from being disturbed. Not to be asked between a stage and its reading."""
        return self.broken or bool(self.outcomes and self.plan and (self.plan.blocked or self.undone))

    @property
    def undone(self) -> tuple[Change, ...]:
        """Changes that were done and are open all the same: success of an action proves nothing."""
        done = {outcome.change.id for outcome in self.outcomes}
        return tuple(change for change in (self.plan.open if self.plan else ()) if change.id in done)

    def disturbs(self, stage: str) -> bool:
        """Does anything that this stage will do here disturb what runs?"""
        return any(change.disruption is not Disruption.NONE for change in self.due(stage))

    def apply(self, stage: str, *, last: bool) -> None:
        """Do this stage's changes, then read again. `last`: no later stage has changes for this host, so the
        host's lock is given back with the reading."""
        changes = self.due(stage)
        if not changes or not self._run(changes, stage):
            return
        restarting = needs_reboot(changes)
        if restarting is not None and not self.broken:
            self._reboot(restarting, stage)
        if self.error is None:
            self.observe(release=last or self.broken)

    def once(self, change: Change) -> None:
        """Do one change that no plan will show as done, such as a command given by hand. What the playbook has to
        say about the host is no part of the result."""
        self._run((change,), change.stage)
        self.plan = HostPlan(self.name)

    def _run(self, changes: tuple[Change, ...], stage: str) -> bool:
        """One execution; its outcomes are told and kept. False when the script itself didn't run to its end."""
        if self.facts is None:
            return False
        self.tell("stage-started", counted(len(changes)), stage=stage)
        for change in changes:
            self.tell("change-started", said(change), stage=stage, change=change.id)
        options = self.wanted.ctx.options
        disturbs = any(change.disruption is not Disruption.NONE for change in changes)
        done = run_stage(
            self.executor,
            changes,
            run=self.run,
            who=self.who,
            generation=generation(self.facts),
            secrets=self.secrets,
            idle=disturbs and not (options.disruptive or options.drained),
            guard=self.guard,
        )
        self.outcomes.extend(done.outcomes)
        for outcome in done.outcomes:
            kind: EventKind = "change-done" if outcome.ok else "change-failed"
            self.tell(
                kind,
                said(outcome.change) if outcome.ok else outcome.output[-2000:],
                stage=stage,
                change=outcome.change.id,
                seconds=outcome.seconds,
                restored=outcome.restored,
            )
        if done.error is not None:
            self.error = done.error
            self.tell("host-failed", str(done.error), stage=stage)
            return False
        self.tell("stage-done", stage=stage)
        return True

    def _reboot(self, limit: float, stage: str) -> None:
        self.tell("host-rebooting", f"at most {limit:.0f} s", stage=stage)
        try:
            wait_for_boot(self.executor, self.plan.identity if self.plan else "", limit)
            self.tell("host-back", stage=stage)
        except TransportError as error:
            self.error = error
            self.tell("host-failed", str(error), stage=stage)

    def result(self) -> HostResult:
        """How this host ended. What is still open after the last reading, and was tried, is a failure: success of
        an action proves nothing."""
        plan = self.plan or HostPlan(self.name)
        left = () if self.broken else tuple(change for change in plan.open if change.id in self.approved)
        status, message = self._status(plan, left)
        return HostResult(
            host=self.name,
            status=status,
            outcomes=tuple(self.outcomes),
            deferred=plan.deferred,
            left=left,
            refusals=plan.refusals,
            notes=plan.notes,
            message=message,
            execs=self.executor.execs,
            connections=self.executor.connections,
            seconds=time.monotonic() - self.began,
            reboot_pending=any(change.disruption is Disruption.REBOOT for change in plan.deferred),
        )

    def _status(self, plan: HostPlan, left: tuple[Change, ...]) -> tuple[Status, str]:
        if self.error is not None:
            never = self.facts is None and isinstance(self.error, TransportError)
            return (Status.UNREACHABLE if never else Status.FAILED), str(self.error)
        for outcome in self.outcomes:
            if not outcome.ok:
                back = f" ({outcome.restored})" if outcome.restored else ""
                return Status.FAILED, f"{outcome.change.id}: {reason(outcome.output)}{back}"
        if plan.refusals:
            return Status.REFUSED, plan.refusals[0].what
        if plan.unknown:
            return Status.FAILED, plan.unknown[0][2]
        if self.stopped:
            return Status.STOPPED, self.stopped
        if left:
            what = ", ".join(change.id for change in self.undone or left)
            return Status.FAILED, f"still different after it was done: {what}"
        return (Status.CHANGED if self.outcomes else Status.OK), ""


def reason(output: str) -> str:
    """The line of a failed change's output that says why: its last one, what the way back printed left out."""
    lines = output.partition(GOING_BACK)[0].strip().splitlines()
    return lines[-1] if lines else "failed"


def summary(result: HostResult) -> dict[str, object]:
    """A host's part of the journal's report: plain JSON-able values."""
    return {
        "status": result.status.value,
        "changed": result.changed,
        "failed": result.failed,
        "deferred": [change.id for change in result.deferred],
        "message": result.message,
        "execs": result.execs,
        "connections": result.connections,
        "seconds": round(result.seconds, 2),
    }
