"""From an inventory to a roll: hosts read, the cluster asked, the lease taken, and the records found again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from provisioner.engine.journal import Journal, new_run_id
from provisioner.engine.locking import write_beside
from provisioner.engine.opening import open_session
from provisioner.engine.session import Session, silent, whoami
from provisioner.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, ProvisionError, UsageError
from provisioner.kube.api import Api
from provisioner.kube.choice import kubectl_of
from provisioner.model.event import Event, EventKind, Monitor
from provisioner.model.upgrade import ENDED, NodeRecord, Phase, PlannedNode, RollOptions, RollPlan, RollReport
from provisioner.transport.executor import Connector
from provisioner.upgrade import hoststep, lease, pods, window
from provisioner.upgrade.fleet import Fleet
from provisioner.upgrade.holder import this_process
from provisioner.upgrade.member import Member
from provisioner.upgrade.phases import Work
from provisioner.upgrade.roll import WELL, Rolling, Task
from provisioner.upgrade.selection import kept_out, kind_of
from provisioner.upgrade.smoke import IMAGE, Smoke


def open_roll(
    inventory: Path | str,
    options: RollOptions,
    *,
    to: str | None = None,
    toolkit: str | None = None,
    playbook: str | None = None,
    limit: str | None = None,
    sets: Sequence[str] = (),
    ask: Callable[[str], str] | None = None,
    monitor: Monitor = silent,
    forks: int = 32,
    ask_canary: Callable[[str], bool] | None = None,
    connect: Connector | None = None,
) -> Roller:
    """A roll over an inventory's hosts; nothing is connected to before it is asked to plan.

    `to` / `toolkit`: versions that are first written into the inventory and the lock. `ask_canary` is asked after the
    canary whether to go on; None goes on. Raises ConfigError or UsageError.
    """
    moved = {"driver": to, "toolkit": toolkit}
    wanted = [f"versions.{name}={version}" for name, version in moved.items() if version]
    session = open_session(
        inventory,
        playbook=playbook,
        limit=limit,
        sets=[*sets, *wanted],
        ask=ask,
        monitor=monitor,
        forks=forks,
        connect=connect,
    )
    named = frozenset(host.name for host in session.hosts) if limit else frozenset()
    return Roller(session, options, {k: v for k, v in moved.items() if v}, monitor, ask_canary, named)


class Roller:
    """One roll: plan, prepare, run; or resume, status, abort. Use as a context manager.

    `stop` may be called from any thread: waits end at once, a phase that changes something is finished.
    """

    def __init__(
        self,
        session: Session,
        options: RollOptions,
        moved: Mapping[str, str],
        monitor: Monitor,
        ask_canary: Callable[[str], bool] | None,
        named: frozenset[str],
    ) -> None:
        self.session = session
        self._monitor, self._ask_canary = monitor, ask_canary
        self._stop = threading.Event()
        self.run_id = new_run_id()
        self._journal: Journal | None = None
        self._held: lease.Held | lease.Unleased | None = None
        self._seconds: dict[str, dict[str, float]] = {}
        self._phase_began: dict[str, float] = {}
        self.members = {
            host.name: Member(
                session.steps(host.name).ctx,
                session.connect(host),
                session.secrets,
                steps=session.steps(host.name),
                stages=tuple(stage.name for stage in session.playbook.stages),
            )
            for host in session.hosts
        }
        self._kubectl_executor = self._cluster_executor()
        cluster = session.inventory.cluster
        self.api = Api(kubectl_of(cluster, self._kubectl_executor), stop=self._stop) if cluster is not None else None
        self.fleet = Fleet(session, options, self.api, self.members, self._stop, moved=moved, named=named)
        self.fleet.be(options.kind)

    def __enter__(self) -> Roller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def options(self) -> RollOptions:
        """As the roll understands them: one that is gone on with takes its kind from the records."""
        return self.fleet.options

    def close(self) -> None:
        """Give the lease back and end all connections."""
        if self._held is not None:
            self._held.release()
            self._held = None
        for member in self.members.values():
            member.executor.close()
        if self.api is not None:
            self.api.close()
        if self._kubectl_executor is not None:
            self._kubectl_executor.close()
        self.session.close()

    def stop(self) -> None:
        """End waits at once and begin nothing new."""
        self._stop.set()
        self._tell_run("run-stopping", "waits end, what changes something is finished, no node is begun")

    # --- planning ----------------------------------------------------------------------------------------------

    def plan(self) -> RollPlan:
        """Read all hosts and the cluster, and say what the roll would do. Changes nothing."""
        return self.fleet.plan()

    def prepare(self, plan: RollPlan) -> RollPlan:
        """Take the lease; fetch target and previous packages to every host of the plan. Nodes whose way there or back
        is missing move to `refused`. Raises LeaseHeld, Frozen."""
        return self.fleet.prepare(plan, self._fence())

    def _fence(self) -> hoststep.Fence:
        """The lease, once for this roll; without a cluster a token that grows with time."""
        if self._held is None:
            if self.api is not None:
                self._held = lease.acquire(self.api, self.run_id, this_process())
            else:
                self._held = lease.Unleased()
        return hoststep.Fence(self.run_id, self._held.token, whoami(), leased=self.api is not None)

    # --- rolling -----------------------------------------------------------------------------------------------

    def run(self, plan: RollPlan) -> RollReport:
        """Write the plan's files, then take node after node. Errors of single nodes are in the report, not raised."""
        fence = self._fence()
        self._journal = self._journal or Journal(self.session.inventory.path, self.run_id)
        names = [node.host for node in plan.nodes]
        self._tell_run("roll-started", f"{plan.kind} {plan.target} on {len(plan.nodes)} nodes", nodes=names)
        # A version that no node gets isn't written down as wanted.
        for path, _, after in plan.files if plan.nodes else ():
            write_beside(Path(path), after)
        tasks = [self._task(node, fence, first=number == 0) for number, node in enumerate(plan.nodes)]
        return self._roll(tasks, plan.left_out, plan.refused)

    def _task(self, node: PlannedNode, fence: hoststep.Fence, *, first: bool) -> Task:
        record = NodeRecord(
            host=node.host,
            node=node.node,
            run=self.run_id,
            token=fence.token,
            kind=self.options.kind,
            reboot=self.options.reboot == "always" and self.options.kind != "deferred",
            source=node.source,
            target=node.target,
        )
        canary = bool(self.options.canary) and first
        # While the host that kubectl runs on restarts, nobody hears of the cluster.
        serial = node.control_plane or node.host == self.fleet.speaker
        return Task(record, self._work(node.host, fence), canary=canary, serial=serial)

    def _work(self, host: str, fence: hoststep.Fence) -> Work:
        assert self._held is not None
        member = self.members[host]
        mode = member.ctx.var("containerd.mode", "default")
        smoke = Smoke(
            image=str(member.ctx.var("upgrade.smoke_image") or IMAGE),
            command=tuple(member.ctx.var("upgrade.smoke_command") or ()),
            runtime_class="nvidia" if mode == "runtimeclass" else "",
        )
        return Work(
            member=member,
            fence=fence,
            api=self.api,
            holding=self._held,
            options=self.options,
            render=member.ctx.renderer.template,
            say=lambda record, text: self._tell("phase-progress", record, text),
            stopping=self._stop.is_set,
            smoke=smoke,
        )

    def _roll(self, tasks: Sequence[Task], left_out: Mapping[str, str], refused: Mapping[str, str]) -> RollReport:
        began = time.time()
        held = self._held
        rolling = Rolling(
            self.options,
            self._tell,
            self._stop,
            aborted=lambda: isinstance(held, lease.Held) and held.abort.is_set(),
            window=window.parse(self.options.window) if self.options.window else None,
            ask_canary=self._ask_canary,
        )
        rolling.records = {task.record.host: task.record for task in tasks}
        rolling.run(tasks)
        well = all(record.phase in WELL for record in rolling.records.values()) and not refused
        code = EXIT_INTERRUPTED if self._stop.is_set() else EXIT_DONE if well else EXIT_FAILED
        self._tell_run("roll-done", rolling.stopped or "all nodes had their turn")
        report = RollReport(
            run=self.run_id,
            exit_code=code,
            nodes=rolling.records,
            left_out=left_out,
            refused=refused,
            stopped=rolling.stopped,
            outdated=self._outdated(rolling.records, began),
            seconds=self._seconds,
            journal=self._journal.where if self._journal else "",
            interrupted=self._stop.is_set(),
        )
        if self._journal is not None:
            hosts = {name: {"status": _status(record)} for name, record in rolling.records.items()}
            self._journal.finish({"run": self.run_id, "kind": "upgrade", "exit_code": code, "hosts": hosts})
            self._journal = None
        return report

    def _outdated(self, done: Mapping[str, NodeRecord], began: float) -> tuple[str, ...]:
        """Pods on rolled nodes that use cards and are older than the roll: they kept what they had mapped."""
        if self.api is None or self._stop.is_set():
            return ()
        try:
            use = pods.gpu_use(self.api.claims(), ())
            return tuple(
                sorted(
                    pod.full_name
                    for record in done.values()
                    if record.phase is Phase.DONE
                    for pod in self.api.pods(node=record.node)
                    if pod.running and pods.why_gpu(pod, use) and pod.created < began
                )
            )
        except ProvisionError:
            return ()

    # --- going on, looking, ending -------------------------------------------------------------------------------

    def resume(self) -> RollReport:
        """Bring nodes that an earlier roll left in the middle to their end, then go on with those not begun. What is
        rolled, driver, toolkit or deferred restarts, is in the records; options that name it have the last word."""
        self.fleet.read()
        _, refused = self.fleet.picture()
        known = self.fleet.records(refused)
        if self.options.kind == "driver":
            self.fleet.be(kind_of(known.values()) or "driver")
        fence = self._fence()
        self._journal = Journal(self.session.inventory.path, self.run_id)
        self._tell_run("roll-started", "going on where an earlier run ended")
        tasks = []
        for left in self.fleet.unfinished(known, refused):
            record = replace(left, run=self.run_id, token=fence.token)
            tasks.append(Task(record, self._work(record.host, fence)))
        if not tasks:
            plan = self.prepare(self.plan())
            return self.run(plan)
        first = self._roll(tasks, {}, {})
        if first.exit_code != EXIT_DONE or self._stop.is_set():
            return replace(first, refused={**first.refused, **refused})
        rest = self.prepare(self.plan())
        if not rest.nodes:
            code = EXIT_FAILED if rest.refused else first.exit_code
            return replace(first, exit_code=code, left_out=rest.left_out, refused=rest.refused)
        second = self.run(rest)
        return replace(
            second,
            nodes={**first.nodes, **second.nodes},
            outdated=tuple(sorted({*first.outdated, *second.outdated})),
        )

    def status(self) -> RollReport:
        """Where all nodes are, and who holds the lease. Reads only."""
        state = lease.State()
        if self.api is not None:
            state, _ = lease.read(self.api)
        self.fleet.read()
        picture, refused = self.fleet.picture()
        found = self.fleet.records(refused, every=True)
        left_out = {}
        for name in self.members:
            if name not in found and name not in refused:
                node = picture.nodes.get(name)
                left_out[name] = (kept_out(node, None, False) if node is not None else "") or "no roll has touched it"
        return RollReport(
            run=state.run,
            exit_code=EXIT_DONE,
            nodes=found,
            left_out=left_out,
            refused=refused,
            holder=state.who,
            frozen=state.frozen,
        )

    def abort(self) -> str:
        """Ask the run that holds the lease for its end; who that is, "" when nobody holds it. Raises UsageError
        without a cluster, where only the run's own terminal can end it."""
        if self.api is None:
            raise UsageError(
                "--abort needs a cluster",
                why="without one there is no lease through which a run could be asked",
                remedy="press Ctrl-C where the run was started",
            )
        return lease.request_abort(self.api)

    # --- telling -------------------------------------------------------------------------------------------------

    def _tell(self, kind: str, record: NodeRecord, text: str) -> None:
        now = time.time()
        if kind == "phase-started":
            self._phase_began[record.host] = now
        elif kind in ("phase-done", "phase-failed"):
            spent = self._seconds.setdefault(record.host, {})
            took = now - self._phase_began.get(record.host, now)
            spent[record.phase.value] = spent.get(record.phase.value, 0.0) + took
        data = {"node": record.node, "since": record.since, "back": record.back, "token": record.token}
        self._event(Event(_kind(kind), now, record.host, record.phase.value, "", text, data))

    def _tell_run(self, kind: EventKind, text: str, **data: object) -> None:
        self._event(Event(kind, time.time(), text=text, data={"run": self.run_id, **data}))

    def _event(self, event: Event) -> None:
        if self._journal is not None:
            self._journal(event)
        self._monitor(event)

    def _cluster_executor(self) -> Any:
        cluster = self.session.inventory.cluster
        if cluster is None or cluster.kubectl_on is None:
            return None
        return self.session.connect(self.session.inventory.host(cluster.kubectl_on))


def _kind(kind: str) -> EventKind:
    """The event kinds of a node, typed."""
    known: dict[str, EventKind] = {
        "phase-started": "phase-started",
        "phase-done": "phase-done",
        "phase-failed": "phase-failed",
        "node-ended": "node-ended",
    }
    return known.get(kind, "phase-progress")


def _status(record: NodeRecord) -> str:
    """A node's end in the words of a run's report, which `--limit failed@last` reads."""
    if record.phase in WELL:
        return "changed"
    return "failed" if record.phase in ENDED else "stopped"
