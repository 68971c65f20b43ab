"""A session: hosts, what is desired of them, and one connection each, from the first reading to the last."""

from __future__ import annotations

import getpass
import hashlib
import socket
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from provisioner.config.playbook import Playbook
from provisioner.engine.gate import of_stage
from provisioner.engine.hostrun import HostRun, summary
from provisioner.engine.journal import Journal, new_run_id
from provisioner.engine.locking import LockOutcome, find_lock, write_beside
from provisioner.engine.planning import HostSteps
from provisioner.engine.pool import each
from provisioner.engine.reading import describe
from provisioner.engine.rollout import roll
from provisioner.engine.saved import check_fit
from provisioner.engine.secrets import Secrets
from provisioner.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, UsageError
from provisioner.model.action import Run
from provisioner.model.change import Change, Kind
from provisioner.model.event import Event, EventKind, Monitor
from provisioner.model.inventory import Host, Inventory
from provisioner.model.plan import HostPlan, Plan
from provisioner.model.result import HostResult, RunResult, Status
from provisioner.transport.executor import Connector, Executor

EXEC_TIMEOUT = 600.0
"""Seconds a command given to `exec` may take."""
WELL = (Status.OK, Status.CHANGED)


def silent(event: Event) -> None:
    """A monitor that shows nothing."""


class Session:
    """Plans and applies with one connection a host. Use as a context manager, or call `close`.

    `inventory`, `playbook` and `hosts` (those selected) may be read. One thread calls it; `stop` may be called
    from any.
    """

    def __init__(
        self,
        inventory: Inventory,
        playbook: Playbook,
        wanted: Sequence[HostSteps],
        connector: Connector,
        *,
        forks: int = 32,
        monitor: Monitor = silent,
    ) -> None:
        self.inventory, self.playbook, self.forks = inventory, playbook, forks
        self.hosts: tuple[Host, ...] = tuple(steps.ctx.host for steps in wanted)
        self._wanted = {steps.ctx.host.name: steps for steps in wanted}
        self._connector, self._monitor = connector, monitor
        self._secrets = Secrets(inventory.secrets)
        self._stop = threading.Event()
        self._stages: tuple[str, ...] = tuple(stage.name for stage in playbook.stages)
        self.run_id = new_run_id()
        self._journal: Journal | None = None
        self._runs: dict[str, HostRun] = {}
        self._made: Plan | None = None
        self._began = time.monotonic()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """Start no new work; what runs on hosts is let end."""
        self._stop.set()
        self._tell(Event("run-stopping", time.time(), text="running executions end, nothing new is started"))

    def close(self) -> None:
        """End all connections."""
        for run in self._runs.values():
            run.executor.close()

    def steps(self, name: str) -> HostSteps:
        """What is desired of a selected host. Raises KeyError."""
        return self._wanted[name]

    def connect(self, host: Host) -> Executor:
        """A connection of its own to a host of the inventory, for work beside planning and applying."""
        return self._connector(host)

    @property
    def secrets(self) -> Secrets:
        """The run's secrets, resolved."""
        return self._secrets

    # --- reading and planning -------------------------------------------------------------------------------

    def observe(self) -> None:
        """Read every selected host once, with this session's connection to it."""
        self._made = None
        self._runs = {name: self._new_run(steps) for name, steps in self._wanted.items()}
        for run in each(
            list(self._runs.values()), HostRun.observe, forks=self.forks, go_on=lambda: not self._stop.is_set()
        ):
            run.stopped = "interrupted before this host was read"

    def plan(self, stage: str | None = None) -> Plan:
        """Read every host and plan. `stage` keeps only that stage's changes. Errors of single hosts are in the
        plan, not raised. Raises UsageError for an unknown stage."""
        if stage is not None and stage not in self._stages:
            raise UsageError(f"no stage is named {stage!r}", why=f"the playbook has: {', '.join(self._stages)}")
        self.observe()
        plans = []
        for run in self._runs.values():
            plan = run.plan or HostPlan(run.name, error=run.stopped or "not read")
            if stage is not None:
                again = run.wanted.ctx.command("apply", "--limit", run.name)
                plan = replace(plan, changes=of_stage(plan.changes, stage, again))
            plans.append(plan)
        salt = hashlib.sha256(self.run_id.encode()).hexdigest()[:16]
        self._made = Plan(
            playbook=self.playbook.name,
            inventory=str(self.inventory.path),
            stages=self._stages,
            hosts=tuple(plans),
            inventory_digest=self.inventory.digest,
            playbook_digest=self.playbook.digest,
            secrets={"salt": salt, **self._secrets.hashes(salt)},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            options={"stage": stage},
        )
        return self._made

    # --- changing --------------------------------------------------------------------------------------------

    def apply(
        self, plan: Plan | None = None, *, max_failures: int = 0, stage: str | None = None, yes: bool = False
    ) -> RunResult:
        """Do what `plan` shows (made by this session, or saved by an earlier one), stage by stage.

        Without a plan one is made and, only with `yes`, done. Any plan but the last one that this session made is
        compared with the hosts as they are now first: PlanMoved when inventory, playbook, secrets or any host moved.
        """
        if plan is None:
            if not yes:
                raise UsageError("nothing is applied without a plan", remedy="make one with plan(), or pass yes=True")
            plan = self.plan(stage)
        elif plan is not self._made:
            only = plan.options.get("stage")
            now = self.plan(only if isinstance(only, str) else None)
            check_fit(plan, now, self._secrets)
        self._open_journal("apply", plan.playbook)
        for host_plan in plan.hosts:
            if host_plan.host in self._runs:
                self._runs[host_plan.host].approve(host_plan)
        roll(
            list(self._runs.values()),
            self._stages,
            forks=self.forks,
            max_failures=max_failures,
            interrupted=self._stop.is_set,
        )
        return self._finish("apply", {run.name: run.result() for run in self._runs.values()})

    def exec(self, command: str) -> RunResult:
        """Run a shell command on every selected host as root: read first, locked and journaled like any change."""
        self.observe()
        self._open_journal("exec", command)
        change = Change(
            subject="command",
            summary=command,
            kind=Kind.RUN,
            actions=(Run(command, "the command", EXEC_TIMEOUT),),
            task="exec",
            stage="exec",
        )
        each(
            [run for run in self._runs.values() if run.error is None],
            lambda run: run.once(change),
            forks=self.forks,
            go_on=lambda: not self._stop.is_set(),
        )
        return self._finish("exec", {run.name: run.result() for run in self._runs.values()})

    def lock(self, check: bool = False) -> LockOutcome:
        """The exact packages per distribution, found on the hosts and written nowhere (`write_lock` does it).

        `check` only says what the caller means to do: nothing is written in either case. Raises LockError.
        """
        if not self._runs:
            self.observe()
        whole = len(self.hosts) == len(self.inventory.hosts)
        return find_lock(list(self._runs.values()), self._secrets, self.inventory.lock_path, whole=whole)

    def write_lock(self, found: LockOutcome) -> None:
        """Replace the inventory's lock file atomically."""
        write_beside(found.path, found.text)

    def facts(self) -> dict[str, dict[str, Any]]:
        """Host name → what was read, JSON-able; {"error": text} for a host that couldn't be read."""
        if not self._runs:
            self.observe()
        return {
            run.name: describe(run.wanted, run.facts) if run.facts else {"error": str(run.error or run.stopped)}
            for run in self._runs.values()
        }

    def _finish(self, kind: str, hosts: dict[str, HostResult]) -> RunResult:
        interrupted = self._stop.is_set()
        well = all(host.status in WELL for host in hosts.values())
        code = EXIT_INTERRUPTED if interrupted else (EXIT_DONE if well else EXIT_FAILED)
        for host in hosts.values():
            end: EventKind = "host-done" if host.status in WELL else "host-failed"
            self._tell(Event(end, time.time(), host.host, text=host.message or host.status.value))
        self._tell(Event("run-done", time.time(), data={"exit_code": code}))
        journal = self._journal
        if journal is not None:
            journal.finish(
                {
                    "run": self.run_id,
                    "kind": kind,
                    "inventory": str(self.inventory.path),
                    "exit_code": code,
                    "hosts": {name: summary(host) for name, host in hosts.items()},
                }
            )
        result = RunResult(
            run=self.run_id,
            kind=kind,
            hosts=hosts,
            exit_code=code,
            journal=journal.where if journal else "",
            seconds=time.monotonic() - self._began,
            interrupted=interrupted,
        )
        self._journal = None
        return result

    # --- shared by the session's operations ------------------------------------------------------------------

    def _new_run(self, steps: HostSteps) -> HostRun:
        before = self._runs.get(steps.ctx.host.name)
        executor = before.executor if before else self._connector(steps.ctx.host)
        return HostRun(steps, executor, self._secrets, self._tell, self.run_id, whoami())

    def _open_journal(self, kind: str, text: str) -> None:
        self._journal = Journal(self.inventory.path, self.run_id)
        self._tell(Event("run-started", time.time(), text=text, data={"kind": kind, "run": self.run_id}))

    def _tell(self, event: Event) -> None:
        journal = self._journal
        if journal is not None:
            journal(event)
        self._monitor(event)

    def runs(self, names: Collection[str] | None = None) -> list[HostRun]:
        """The host runs of this session (after `plan` or `observe`)."""
        return [run for run in self._runs.values() if names is None or run.name in names]


def whoami() -> str:
    """USER@HOST of the controller, one word, for the lock on a host and for people."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}".replace(" ", "_")
