"""What each phase does to a node: cluster first, then the host. Every phase may be done again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from provisioner.engine.reboot import wait_for_boot
from provisioner.errors import Disconnected, Interrupted, Unreachable
from provisioner.facts.packages import PackagesProbe
from provisioner.kube.api import Api
from provisioner.kube.objects import Node, Pod
from provisioner.model.upgrade import ENDED, NodeRecord, Phase, Result, RollOptions
from provisioner.tasks.packaging.choose import backend_for
from provisioner.upgrade import (
    clients,
    cordon,
    daemons,
    deferred,
    drain,
    holders,
    hostops,
    hoststep,
    layout,
    pods,
    prefetch,
)
from provisioner.upgrade import record as records
from provisioner.upgrade.hoststep import Fence
from provisioner.upgrade.lease import Holding
from provisioner.upgrade.member import Member, save_on_host
from provisioner.upgrade.node import Done, one_line
from provisioner.upgrade.smoke import Render, Smoke, compute, wait_offered
from provisioner.upgrade.verify import verify

FRESH = 1.0
"""Seconds for which a look at the lease counts, so that recording a phase and beginning it need one look."""
OFFER_TIMEOUT = 300.0
"""Seconds for kubelet, device plugin and DaemonSets to be back after a restart of what they talk to."""
LOOK_AGAIN = 2.0
"""Seconds between two looks at who holds the cards of a host."""
UNHEALTHY = "gpu-unhealthy"
REASON = "provision.dev/gpu-unhealthy-reason"

Say = Callable[[NodeRecord, str], None]
T = TypeVar("T")


def healthy(node: Node) -> dict[str, Any] | None:
    """The merge patch that takes back what said that the node is bad, None where nothing does. Pure.

    A verdict of the boot self-test is its own to take back, at the next boot or `apply`.
    """
    if node.labels.get(UNHEALTHY) != "true" or cordon.SELF_TEST in cordon.owners_of(node):
        return None
    return {"metadata": {"labels": {UNHEALTHY: None}, "annotations": {REASON: None}}}


@dataclass
class Work:
    """Does the phases of one node (`Doer`). `api` None: plain hosts without a cluster."""

    member: Member
    fence: Fence
    api: Api | None
    holding: Holding
    options: RollOptions
    render: Render
    say: Say
    stopping: Callable[[], bool]
    smoke: Smoke = field(default_factory=Smoke)
    sleep: Callable[[float], None] = time.sleep
    _looked: float = 0.0

    # --- Doer --------------------------------------------------------------------------------------------------

    def save(self, record: NodeRecord) -> None:
        """See Doer.save: an annotation on the node, else a file on the host."""
        self._guard()
        if self.api is not None:
            records.write(self.api, record)
            return
        self._step(save_on_host(self.fence, record))
        if record.phase in ENDED:
            self._step(hoststep.release(self.fence))

    def do(self, record: NodeRecord) -> Done:
        """See Doer.do. A fresh look at the lease comes before every side effect."""
        self._guard()
        phases: dict[Phase, Callable[[NodeRecord], Done]] = {
            Phase.LOCK: self._lock,
            Phase.CORDON: self._cordon,
            Phase.WAIT_JOBS: self._wait_jobs,
            Phase.EVICT: self._evict,
            Phase.STOP_CLIENTS: self._stop_clients,
            Phase.UNLOAD: self._unload,
            Phase.INSTALL: self._install,
            Phase.LOAD: self._load,
            Phase.REBOOT: self._reboot,
            Phase.VERIFY_HOST: self._verify_host,
            Phase.START_CLIENTS: self._start_clients,
            Phase.VERIFY_CLUSTER: self._verify_cluster,
            Phase.UNCORDON: self._uncordon,
            Phase.RELEASE: self._release,
            Phase.MARK_UNHEALTHY: self._mark_unhealthy,
        }
        return phases[record.phase](record)

    # --- before the driver is touched --------------------------------------------------------------------------

    def _lock(self, record: NodeRecord) -> Done:
        """The host's lock and token; what its cards look like, while the old driver still works."""
        self._step(layout.remember(self.fence))
        offered: tuple[str, ...] = record.offered
        if self.api is not None and not offered:
            node = self.api.node(record.node)
            offered = tuple(f"{name}={count}" for name, count in sorted(node.capacity.items()))
        return Done(Result.OK, replace(record, offered=offered))

    def _cordon(self, record: NodeRecord) -> Done:
        if self.api is None:
            return Done(Result.OK, record)
        found = cordon.cordon(self.api, record.node, self.fence.token)
        before = found.before or record.cordoned_before
        self._event(record, "DriverUpgradeStarted", f"{record.source} → {record.target}: cordoned")
        return Done(Result.OK, replace(record, cordoned_before=tuple(before)))

    def _wait_jobs(self, record: NodeRecord) -> Done:
        if self.api is None or not self.options.wait_for_jobs:
            return Done(Result.OK, record)
        on = self._waiting(record, self.options.job_timeout)
        return self._ended(record, drain.wait_for_jobs(on, self.options.wait_for_jobs))

    def _evict(self, record: NodeRecord) -> Done:
        """Pods through the Eviction API; then nobody else may hold a card either: no process is ended by us."""
        began = time.monotonic()
        if self.api is not None:
            on = self._waiting(record, self.options.drain_timeout)
            outcome = drain.drain(on, self.options.drain, self._use)
            if not outcome.ok:
                return self._ended(record, outcome)
        while True:
            held = self._step(holders.look(self.fence))
            if not self._work_of_others(record, held):
                return Done(Result.OK, record)
            # The driver's own daemons are stopped later and are in nobody's way.
            text = replace(held, processes=held.workload).text(self._pod_names(record))
            if self.options.drain_timeout and time.monotonic() - began >= self.options.drain_timeout:
                return Done(Result.FAILED, record, f"the cards are still in use: {text}")
            self.say(record, f"waiting for what holds the cards: {text}")
            if self.stopping():
                raise Interrupted(f"{record.host}: interrupted while the cards were in use")
            self.sleep(LOOK_AGAIN)

    # --- the driver ----------------------------------------------------------------------------------------------

    def _stop_clients(self, record: NodeRecord) -> Done:
        if self.api is not None:
            node = self.api.node(record.node)
            plan = daemons.pause(node, pods.clients(self.api.pods(node=record.node), self._use()))
            remembered = tuple(dict.fromkeys((*record.clients, *plan.remembered)))
            if remembered != record.clients:
                record = replace(record, clients=remembered)
                self.save(record)
            outcome = daemons.keep_away(
                self._waiting(record, self.options.drain_timeout), plan, self._use, self.fence.token
            )
            if not outcome.ok:
                return self._ended(record, outcome)
        self._guard()
        stopped = self._step(clients.stop_clients(self.fence))
        return Done(Result.FAILED if stopped.failed else Result.OK, record, stopped.reason)

    @property
    def _moves_driver(self) -> bool:
        return self.options.kind == "driver"

    def _unload(self, record: NodeRecord) -> Done:
        if not self._moves_driver:
            return Done(Result.OK, record)
        found = self._step(hostops.unload(self.fence))
        text = found.reason
        if found.result is Result.BUSY:
            text = f"the module is in use: {found.held.text(self._pod_names(record))}"
            if self._work_of_others(record, found.held):
                # A restart would end it, and nobody said that it may be ended.
                return Done(Result.FAILED, record, text)
        return Done(found.result, record, text)

    def _install(self, record: NodeRecord) -> Done:
        if self.options.kind == "deferred":
            assert self.member.steps is not None
            result, reason = deferred.apply(self.member, self.member.steps, self.member.stages, self.fence)
            return Done(result, record, reason)
        version = record.source if record.back else record.target
        kept = self._step(prefetch.stored(self.fence, version, self.member.kind))
        if not kept.ready:
            return Done(Result.FAILED, record, f"packages of {version} aren't on the host: {kept.reason}")
        facts = self.member.read()
        if facts is None:
            return Done(Result.FAILED, record, self.member.error)
        closure = self.member.closure or self.member.wanted()
        state = facts.need(PackagesProbe())
        if record.back:
            closure = prefetch.previous_closure(closure, kept, state)
        pins = backend_for(state).pins(closure.role("driver", "toolkit"))
        # The next kernel may never have had the previous version, and the way back is to what was there.
        kernels = () if record.back else self.member.kernels
        done = hostops.install(self.member.executor, self.fence, kept, pins, downgrade=True, kernels=kernels)
        return Done(done.result, record, "" if done.result is Result.OK else done.reason)

    def _load(self, record: NodeRecord) -> Done:
        if not self._moves_driver:
            return Done(Result.OK, record)
        load = hostops.load(self.fence, record.source if record.back else record.target)
        found = self._step(load)
        if found.result is Result.RETRY_REBOOT and found.version:
            # Any nvidia-smi that root ran meanwhile has put the old module back; one that nobody holds can go again.
            self._guard()
            if self._step(hostops.unload(self.fence)).result is Result.OK:
                found = self._step(load)
        return Done(found.result, record, found.reason)

    def _reboot(self, record: NodeRecord) -> Done:
        if not record.boot:
            record = replace(record, boot=self._step(hostops.identify(self.fence)))
            self.save(record)
        end = time.monotonic() + self.options.reboot_timeout
        while True:
            # Asked again after a crash the host may be on its way down, or up: then it doesn't answer yet.
            try:
                if not self._step(hostops.restart(self.fence, record.boot)).begun:
                    return Done(Result.OK, record)
                wait_for_boot(self.member.executor, record.boot, end - time.monotonic())
                return Done(Result.OK, record)
            except (Unreachable, Disconnected) as error:
                if time.monotonic() >= end:
                    return Done(Result.FAILED, record, one_line(error))
            self.member.executor.close()
            self.sleep(LOOK_AGAIN)
            self._guard()

    def _verify_host(self, record: NodeRecord) -> Done:
        version = record.source if record.back else record.target
        if self.member.kind == "toolkit":
            self.member.read()
            have = self.member.source()
            return Done(Result.OK if have == version else Result.FAILED, record, f"toolkit {have}")
        found = verify(
            self.member.executor,
            self.fence,
            version,
            cards=self.member.ctx.var("gpu.cards"),
            deadline=int(self.member.ctx.var("selftest.deadline", 90)),
        )
        return Done(found.result, record, found.reason)

    # --- the way out ---------------------------------------------------------------------------------------------

    def _start_clients(self, record: NodeRecord) -> Done:
        started = self._step(clients.start_clients(self.fence))
        if started.failed:
            return Done(Result.FAILED, record, started.reason)
        if self.api is not None:
            daemons.let_back(self.api, record.node, self.fence.token, record.clients)
            outcome = daemons.wait_back(self._waiting(record, OFFER_TIMEOUT), record.clients)
            if not outcome.ok:
                return self._ended(record, outcome)
        return Done(Result.OK, record)

    def _verify_cluster(self, record: NodeRecord) -> Done:
        """While still cordoned: the node offers what it did, and a pod computes on a card."""
        expected = {name: int(count) for name, _, count in (each.partition("=") for each in record.offered)}
        if self.api is None or not any(expected.values()):
            return Done(Result.OK, record)
        outcome = wait_offered(self._waiting(record, OFFER_TIMEOUT), expected)
        if not outcome.ok:
            return self._ended(record, outcome)
        verdict = compute(self.api, record.node, self.smoke, self.render, guard=self.holding.check)
        return Done(Result.OK if verdict.ok else Result.FAILED, record, verdict.text)

    def _uncordon(self, record: NodeRecord) -> Done:
        text = ""
        if self.api is not None:
            self.api.change_node(record.node, healthy)
            left = cordon.uncordon(self.api, record.node, self.fence.token).owners
            text = f"stays cordoned for {', '.join(left)}" if left else ""
            what = "the previous driver works again" if record.back else f"{record.target} works"
            self._event(
                record, "DriverUpgradeRolledBack" if record.back else "DriverUpgradeDone", f"{what} {text}".strip()
            )
        self._step(hoststep.release(self.fence))
        if record.back:
            text = "; ".join(part for part in (record.reason, "the previous packages are back", text) if part)
        return Done(Result.OK, record, text)

    def _release(self, record: NodeRecord) -> Done:
        """The driver's packages weren't touched: what was stopped runs again, and the node is as it was."""
        if self._moves_driver and record.source:
            back = self._step(hostops.load(self.fence, record.source))
            if back.result is not Result.OK:
                return Done(Result.FAILED, record, f"{record.reason}; and loading again: {back.reason}")
        started = self._step(clients.start_clients(self.fence))
        if started.failed:
            return Done(Result.FAILED, record, f"{record.reason}; {started.reason}")
        if self.api is not None:
            daemons.let_back(self.api, record.node, self.fence.token, record.clients)
            cordon.uncordon(self.api, record.node, self.fence.token)
            self._event(record, "DriverUpgradeFailed", f"left as it was: {record.reason}", warning=True)
        self._step(hoststep.release(self.fence))
        return Done(Result.OK, record, record.reason)

    def _mark_unhealthy(self, record: NodeRecord) -> Done:
        """It stays cordoned; the label says so to whoever looks."""
        if self.api is not None:
            cordon.cordon(self.api, record.node, self.fence.token)
            reason = record.reason[:500]
            self.api.change_node(
                record.node,
                lambda node: (
                    None
                    if node.labels.get(UNHEALTHY) == "true" and node.annotations.get(REASON) == reason
                    else {"metadata": {"labels": {UNHEALTHY: "true"}, "annotations": {REASON: reason}}}
                ),
            )
            self._event(record, "DriverUpgradeBroken", reason, warning=True)
        return Done(Result.OK, record, record.reason)

    # --- shared ----------------------------------------------------------------------------------------------------

    def _guard(self) -> None:
        """A look at the lease, unless there was one just now. By the wall clock: it goes on while a laptop sleeps."""
        if not 0.0 <= time.time() - self._looked < FRESH:
            self.holding.check()
            self._looked = time.time()

    def _step(self, step: hoststep.Step[T]) -> T:
        return step.run(self.member.executor)

    def _use(self) -> pods.GpuUse:
        """Pods with cards by claim, or by a device file that a process of theirs holds."""
        assert self.api is not None
        held = self._step(holders.look(self.fence))
        return pods.gpu_use(self.api.claims(), held.pods)

    def _work_of_others(self, record: NodeRecord, held: holders.Held) -> bool:
        """Does anything hold a card that isn't the driver's own, or a DaemonSet's that serves the cards?"""
        if not held.workload or self.api is None:
            return bool(held.workload)
        serving = {pod.uid for pod in pods.clients(self.api.pods(node=record.node), pods.gpu_use((), held.pods))}
        return any(holder.place.pod not in serving for holder in held.workload)

    def _pod_names(self, record: NodeRecord) -> dict[str, str]:
        """Pod uid → NAMESPACE/NAME on this node."""
        found: list[Pod] = self.api.pods(node=record.node) if self.api is not None else []
        return {pod.uid: pod.full_name for pod in found}

    def _waiting(self, record: NodeRecord, timeout: float) -> drain.Waiting:
        assert self.api is not None
        return drain.Waiting(
            self.api, record.node, timeout, self.holding.check, lambda progress: self.say(record, progress.text)
        )

    def _ended(self, record: NodeRecord, outcome: drain.Outcome) -> Done:
        if outcome.ended == "stopped":
            raise Interrupted(f"{record.host}: {outcome.last.text}")
        return Done(Result.OK, record) if outcome.ok else Done(Result.FAILED, record, f"gave up {outcome.last.text}")

    def _event(self, record: NodeRecord, reason: str, text: str, *, warning: bool = False) -> None:
        if self.api is not None:
            self.api.event(Node(record.node), reason, f"{text} (run {self.fence.run})", warning=warning)
