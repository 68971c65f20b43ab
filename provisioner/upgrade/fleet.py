"""The hosts of a roll and their cluster: read, checked, and given their packages before the first node is touched."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from provisioner.engine.pool import each
from provisioner.engine.session import Session
from provisioner.errors import FactUnknown, NotFound, ProvisionError, UsageError
from provisioner.facts.packages import PackagesProbe
from provisioner.kube import rbac
from provisioner.kube.api import Api
from provisioner.model.fact import Probe
from provisioner.model.lock import Role
from provisioner.model.upgrade import Kind, NodeRecord, Phase, PlannedNode, RollOptions, RollPlan
from provisioner.tasks.packaging.choose import backend_for
from provisioner.upgrade import checks, deferred, hoststep, identity, pods, prefetch
from provisioner.upgrade.member import Member
from provisioner.upgrade.node import one_line
from provisioner.upgrade.schedule import ordered
from provisioner.upgrade.selection import Picture, in_the_middle, kept_out, planned
from provisioner.upgrade.target import differing, with_version


@dataclass
class Fleet:
    """All hosts that a roll may take. `moved`: versions that the command line moves ("driver" → "580.95.05");
    `named`: hosts that it names one by one."""

    session: Session
    options: RollOptions
    api: Api | None
    members: Mapping[str, Member]
    stop: threading.Event
    kind: Role = "driver"
    moved: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    @property
    def speaker(self) -> str | None:
        """The host that kubectl runs on, None where it is this machine."""
        cluster = self.session.inventory.cluster
        return cluster.kubectl_on if cluster is not None else None

    def be(self, kind: Kind) -> None:
        """From now on this is a roll of that kind. What `apply` deferred has no packages to go back to."""
        self.options = replace(self.options, kind=kind)
        if kind == "deferred":
            self.options = replace(self.options, rollback="never")
        self.kind = "toolkit" if kind == "toolkit" else "driver"
        for member in self.members.values():
            member.kind = self.kind

    def plan(self) -> RollPlan:
        """Read all hosts and the cluster, and say what the roll would do. Changes nothing."""
        lacking = rbac.require(self.api) if self.api is not None else []
        files = self._files_to_move()
        inventory = self.session.inventory
        self.read()
        picture, refused = self.picture()
        left_out: dict[str, str] = {}
        nodes: list[PlannedNode] = []
        for name, member in self.members.items():
            if name in refused:
                continue
            node = picture.nodes.get(name)
            try:
                member.record = member.kept_record(self.api)
                if middle := in_the_middle(member.record):
                    refused[name] = middle
                    continue
                why = kept_out(node, member.record, name in self.named) if node is not None else ""
                found = self._check(member, picture)
            except (FactUnknown, ProvisionError) as error:
                refused[name] = one_line(error)
                continue
            if why:
                left_out[name] = why
            elif found.state == "ready" or (found.state == "left out" and self._to_be_mended(member)):
                # A node that an earlier roll left broken is taken through all phases again: that proves it, too.
                nodes.append(planned(found, node, picture))
            elif found.state == "left out":
                left_out[name] = found.reason
            else:
                refused[name] = found.reason
        taken = ordered(nodes, inventory.groups, self.options.order, self.options.canary, self.speaker)
        for lone in nodes:
            if lone not in taken:
                left_out[lone.host] = "member of the control plane: taken only when --order names its group"
        targets = sorted({node.target for node in taken})
        return RollPlan(
            kind=self.options.kind,
            target=", ".join(targets),
            nodes=taken,
            left_out=left_out,
            refused=refused,
            files=files,
            notes=tuple(f"this user lacks {need.text}: {need.why} will be missing" for need in lacking),
            options=self.options,
            cluster=self.api is not None,
        )

    def _to_be_mended(self, member: Member) -> bool:
        return member.record is not None and member.record.phase is Phase.BROKEN and member.host in self.named

    def _check(self, member: Member, picture: Picture, fetched: prefetch.Fetched | None = None) -> checks.HostCheck:
        assert member.facts is not None
        if self.options.kind == "deferred":
            return self._check_deferred(member)
        return checks.check_host(
            member.facts,
            member.ctx,
            fetched,
            kind=self.kind,
            images=picture.images(member.host),
            rollback=self.options.rollback,
        )

    def _check_deferred(self, member: Member) -> checks.HostCheck:
        assert member.facts is not None
        assert member.steps is not None
        changes = deferred.waiting(member.steps, member.facts)
        version = deferred.loaded(member.facts)
        if not changes:
            return checks.HostCheck(member.host, "left out", version, version, notes=("nothing was deferred here",))
        return checks.HostCheck(
            member.host, "ready", version, version, notes=tuple(f"{each.id}: {each.summary}" for each in changes)
        )

    def _files_to_move(self) -> tuple[tuple[str, str, str], ...]:
        """Inventory and lock as they will be; the members' contexts get the new lock."""
        if not self.moved:
            return ()
        inventory = self.session.inventory
        text = ""
        for name, version in self.moved.items():
            text = with_version(inventory, self.session.hosts, name, version)
        outcome = self.session.lock()
        for member in self.members.values():
            member.ctx = replace(member.ctx, lock=outcome.lock)
        changed = (differing(inventory.path, text), differing(outcome.path, outcome.text) if outcome.changed else None)
        return tuple(file for file in changed if file is not None)

    def read(self) -> None:
        """Read all hosts anew; what keeps one from being read is kept with it."""
        each(
            list(self.members.values()),
            lambda member: _none(member.read((*checks.PROBES, *self._asked(member)))),
            forks=self.session.forks,
            go_on=lambda: not self.stop.is_set(),
        )

    def _asked(self, member: Member) -> tuple[Probe[Any], ...]:
        """What the playbook's tasks must know, when their deferred changes are to be done."""
        return member.steps.probes() if self.options.kind == "deferred" and member.steps is not None else ()

    def picture(self) -> tuple[Picture, dict[str, str]]:
        """The cluster, and the hosts that can't take part: unreachable, or not beyond doubt a node of it."""
        refused = {name: member.error or "not read" for name, member in self.members.items() if member.facts is None}
        if self.api is None:
            return Picture(), refused
        readable = [member for name, member in self.members.items() if name not in refused]
        hosts = [
            identity.HostIdentity(member.host, member.machine_id, member.ctx.host.node, member.hostname)
            for member in readable
        ]
        found = identity.match(hosts, self.api.nodes())
        for member in readable:
            if member.host in found.nodes:
                member.node = found.nodes[member.host].name
        refused |= dict(found.refused)
        use = pods.gpu_use(self.api.claims(), ())
        everything = self.api.pods()
        on = {node.name: [pod for pod in everything if pod.node == node.name] for node in found.nodes.values()}
        return Picture(dict(found.nodes), on, self.api.budgets(), use), refused

    def prepare(self, plan: RollPlan, fence: hoststep.Fence) -> RollPlan:
        """Fetch target and previous packages to every host of the plan. Nodes whose way there or back is missing move
        to `refused`."""
        picture, _ = self.picture()
        refused: dict[str, str] = {}
        ready: dict[str, PlannedNode] = {}

        def fetch(node: PlannedNode) -> None:
            member = self.members[node.host]
            try:
                check = self._fetch(member, fence, picture)
            except ProvisionError as error:
                refused[node.host] = one_line(error)
                return
            if check.state == "ready" or (check.state == "left out" and self._to_be_mended(member)):
                ready[node.host] = planned(check, picture.nodes.get(node.host), picture)
            else:
                refused[node.host] = check.reason

        each(plan.nodes, fetch, forks=self.session.forks, go_on=lambda: not self.stop.is_set())
        nodes = tuple(ready[node.host] for node in plan.nodes if node.host in ready)
        return replace(plan, nodes=nodes, refused={**plan.refused, **refused})

    def _fetch(self, member: Member, fence: hoststep.Fence, picture: Picture) -> checks.HostCheck:
        if self.options.kind == "deferred":
            return self._check_deferred(member)
        closure = member.wanted()
        assert member.facts is not None
        state = member.facts.need(PackagesProbe())
        target = prefetch.target_set(closure, state, backend_for(state), self.kind)
        previous = prefetch.previous_set(closure, state, member.source(), self.kind)
        fetched = prefetch.prefetch(fence, target, previous).run(member.executor)
        return self._check(member, picture, fetched)

    def records(self, refused: dict[str, str], *, every: bool = False) -> dict[str, NodeRecord]:
        """Host → what earlier rolls left on record. A host that doesn't answer has its record on its node all the same,
        as have those in `refused`, which only `every` reads; hosts whose record can't be read move there."""
        found = {}
        for name, member in self.members.items():
            if (every or member.facts is None) and self.api is not None:
                member.node = member.node or member.ctx.host.node or name
            elif name in refused:
                continue
            try:
                known = member.kept_record(self.api)
            except NotFound:
                continue
            except ProvisionError as error:
                refused[name] = one_line(error)
                continue
            if known is not None:
                found[name] = known
        return found

    def unfinished(self, known: Mapping[str, NodeRecord], refused: dict[str, str]) -> list[NodeRecord]:
        """Records of nodes that an earlier roll left in the middle. Those that can't be gone on with move to `refused`;
        one that doesn't answer can: its phase waits for it, and says what follows when it stays away."""
        found = []
        for name, record in known.items():
            member = self.members[name]
            if not in_the_middle(record):
                continue
            try:
                self._same_roll(member, record)
            except ProvisionError as error:
                refused[name] = one_line(error)
                continue
            refused.pop(name, None)
            found.append(replace(record, host=name, node=member.node))
        return found

    def _same_roll(self, member: Member, known: NodeRecord) -> None:
        """Raises UsageError when this roll is of another kind than the one that is to be gone on with, or inventory and
        lock want another version than that one."""
        if known.kind != self.options.kind:
            raise UsageError(
                f"{member.host} is in the middle of a roll of another kind",
                why=f"{known.kind} run {known.run} left it while {known.phase.value}; this is {self.options.kind}",
                remedy="go on with --resume alone, once more for each kind",
            )
        if member.facts is None or known.kind == "deferred":
            return
        closure = member.wanted()
        wanted = closure.driver if self.kind == "driver" else closure.toolkit
        if wanted != known.target:
            raise UsageError(
                f"{member.host} is on its way to {known.target}",
                why=f"run {known.run} left it while {known.phase.value}; inventory and lock want {self.kind} {wanted}",
                remedy="go on with the inventory and the lock of that run",
            )


def _none(_: object) -> None:
    """For workers whose answer is kept elsewhere."""
