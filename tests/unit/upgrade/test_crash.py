"""The controller dies at every point of a roll; whoever goes on reaches the same end, and nothing is done twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from provisioner.errors import LeaseLost, Unreachable
from provisioner.model.upgrade import ENDED, NodeRecord, Phase, Result, RollOptions
from provisioner.upgrade.node import Done, drive
from provisioner.upgrade.transitions import following


class Killed(BaseException):
    """kill -9: nothing of the controller runs any more."""


@dataclass
class Node:
    """A node in memory: what is true of it, and where its record lies. `fails`: phases that fail while `True`."""

    cordoned: bool = False
    foreign: bool = False
    clients: bool = True
    loaded: str = "old"
    installed: str = "old"
    labelled: bool = False
    record: NodeRecord = field(default_factory=lambda: NodeRecord("gpu01", source="old", target="new"))
    fails: dict[tuple[Phase, bool], Result] = field(default_factory=dict)
    installs: list[str] = field(default_factory=list)
    points: int = 0
    kill_at: int = -1

    def point(self) -> None:
        """A place where the controller may die."""
        self.points += 1
        if self.points == self.kill_at:
            raise Killed

    def save(self, record: NodeRecord) -> None:
        self.point()
        self.record = record
        self.point()

    def do(self, record: NodeRecord) -> Done:
        assert record == self.record, "recorded before its side effect"
        failing = self.fails.get((record.phase, record.back))
        if failing is not None and record.phase not in (Phase.INSTALL, Phase.LOAD):
            return Done(failing, record, f"{record.phase.value} failed")
        record = self._effect(record)
        self.point()
        if failing is not None:
            return Done(failing, record, f"{record.phase.value} failed half-way")
        return Done(Result.OK, record)

    def _effect(self, record: NodeRecord) -> NodeRecord:
        version = record.source if record.back else record.target
        match record.phase:
            case Phase.CORDON:
                self.cordoned = True
            case Phase.STOP_CLIENTS:
                self.clients = False
            case Phase.UNLOAD:
                assert not self.clients
                self.loaded = ""
            case Phase.INSTALL:
                assert self.cordoned
                if self.installed != version:
                    self.installs.append(version)
                self.installed = version
            case Phase.LOAD | Phase.REBOOT:
                self.loaded = self.installed
            case Phase.START_CLIENTS:
                self.clients = True
            case Phase.RELEASE:
                self.loaded, self.clients, self.cordoned = self.installed, True, self.foreign
            case Phase.UNCORDON:
                assert self.clients
                assert self.loaded == version
                self.cordoned = self.foreign
            case Phase.MARK_UNHEALTHY:
                self.labelled = True
            case _:
                pass
        return record


def silent(kind: str, record: NodeRecord, text: str) -> None:
    pass


def go(node: Node, options: RollOptions) -> NodeRecord:
    return drive(node.record, node, options, tell=silent, stopping=lambda: False, sleep=lambda _: None)


SCENES = {
    "well": {},
    "drain times out": {(Phase.EVICT, False): Result.FAILED},
    "busy, so by a reboot": {(Phase.UNLOAD, False): Result.BUSY},
    "package fails half-way": {(Phase.INSTALL, False): Result.FAILED},
    "old module still loaded": {(Phase.LOAD, False): Result.RETRY_REBOOT},
    "self-test fails": {(Phase.VERIFY_HOST, False): Result.FAILED},
    "pod doesn't compute": {(Phase.VERIFY_CLUSTER, False): Result.FAILED},
    "back fails too": {(Phase.VERIFY_HOST, False): Result.FAILED, (Phase.INSTALL, True): Result.FAILED},
    "never comes back": {(Phase.UNLOAD, False): Result.BUSY, (Phase.REBOOT, False): Result.FAILED},
}
ENDS = {
    "well": (Phase.DONE, "new", False, ["new"]),
    "drain times out": (Phase.FAILED, "old", False, []),
    "busy, so by a reboot": (Phase.DONE, "new", False, ["new"]),
    "package fails half-way": (Phase.ROLLED_BACK, "old", False, ["new", "old"]),
    "old module still loaded": (Phase.DONE, "new", False, ["new"]),
    "self-test fails": (Phase.ROLLED_BACK, "old", False, ["new", "old"]),
    "pod doesn't compute": (Phase.ROLLED_BACK, "old", False, ["new", "old"]),
    "back fails too": (Phase.BROKEN, "old", True, ["new", "old"]),
    "never comes back": (Phase.BROKEN, "new", True, ["new"]),
}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_every_point_and_resumed_it_ends_as_if_nothing_had_happened(scene: str, foreign: bool) -> None:
    options = RollOptions()
    whole = Node(fails=dict(SCENES[scene]), foreign=foreign, cordoned=foreign)
    go(whole, options)
    phase, installed, cordoned, installs = ENDS[scene]
    assert (whole.record.phase, whole.installed, whole.installs) == (phase, installed, installs)
    assert whole.cordoned is (cordoned or foreign), "a foreign cordon stays, ours goes unless a person is needed"
    assert whole.labelled is (phase is Phase.BROKEN)
    for point in range(1, whole.points + 1):
        node = Node(fails=dict(SCENES[scene]), foreign=foreign, cordoned=foreign, kill_at=point)
        try:
            go(node, options)
        except Killed:
            go(node, options)
        assert (node.record.phase, node.installed, node.cordoned, node.labelled) == (
            whole.record.phase,
            whole.installed,
            whole.cordoned,
            whole.labelled,
        ), f"killed at point {point}"
        assert node.installs == installs, f"killed at point {point}: a node is never upgraded twice"


def test_every_unended_phase_has_a_way_on_for_every_result() -> None:
    for phase in Phase:
        for back in (False, True):
            for result in (Result.OK, Result.FAILED):
                record = NodeRecord("gpu01", phase=phase, back=back)
                if phase in ENDED or (phase is Phase.PENDING and result is Result.FAILED):
                    continue
                assert following(record, result, RollOptions()).phase is not phase


@pytest.mark.parametrize("rollback", ["auto", "never"])
@pytest.mark.parametrize("reboot", ["auto", "always", "never"])
def test_no_path_goes_in_a_circle(rollback: str, reboot: str) -> None:
    """Whatever results come, a node ends after a bounded number of phases."""
    options = RollOptions(rollback=rollback, reboot=reboot)  # type: ignore[arg-type]
    todo = [(NodeRecord("gpu01", reboot=reboot == "always"), 0)]
    seen: set[tuple[Phase, bool, bool]] = set()
    while todo:
        record, depth = todo.pop()
        assert depth < 40
        if record.phase in ENDED or (record.phase, record.back, record.reboot) in seen:
            continue
        seen.add((record.phase, record.back, record.reboot))
        for result in Result:
            busy = result is Result.BUSY and record.phase is not Phase.UNLOAD
            odd = result is Result.RETRY_REBOOT and record.phase not in (Phase.LOAD, Phase.VERIFY_HOST)
            if busy or odd or (record.phase is Phase.PENDING and result is not Result.OK):
                continue
            todo.append((following(record, result, options), depth + 1))


def test_without_a_reboot_a_busy_module_leaves_the_node_as_it_was() -> None:
    node = Node(fails={(Phase.UNLOAD, False): Result.BUSY})
    record = go(node, RollOptions(reboot="never"))
    assert (record.phase, node.installed, node.loaded, node.cordoned) == (Phase.FAILED, "old", "old", False)
    assert "unloading" in record.reason


def test_without_a_rollback_a_failure_waits_for_a_person() -> None:
    node = Node(fails={(Phase.VERIFY_HOST, False): Result.FAILED})
    assert go(node, RollOptions(rollback="never")).phase is Phase.BROKEN
    assert node.cordoned
    assert node.labelled


def test_who_lost_the_lease_does_nothing_more() -> None:
    class Taken(Node):
        def save(self, record: NodeRecord) -> None:
            if record.phase is Phase.INSTALL:
                raise LeaseLost("taken over")
            super().save(record)

    node = Taken()
    with pytest.raises(LeaseLost):
        go(node, RollOptions())
    assert node.installed == "old"


def test_an_answer_that_is_missing_is_asked_for_again() -> None:
    class Away(Node):
        away = 3

        def do(self, record: NodeRecord) -> Done:
            if record.phase is Phase.VERIFY_HOST and self.away:
                self.away -= 1
                raise Unreachable("gone for a moment")
            return super().do(record)

    assert go(Away(), RollOptions()).phase is Phase.DONE


def test_an_interruption_ends_after_the_phase_that_changes_something() -> None:
    node = Node()
    record = drive(
        node.record,
        node,
        RollOptions(),
        tell=silent,
        stopping=lambda: node.installed == "new",
        sleep=lambda _: None,
    )
    assert record.phase is Phase.LOAD
    assert node.record == record
    assert drive(replace(record), node, RollOptions(), tell=silent, stopping=lambda: False).phase is Phase.DONE
