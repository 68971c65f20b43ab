"""Several nodes: how many at once, and where it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from provisioner.errors import ApiUnreachable, LeaseLost, Unreachable
from provisioner.model.upgrade import NodeRecord, Phase, Result, RollOptions
from provisioner.upgrade.node import Done
from provisioner.upgrade.roll import Rolling, Task
from provisioner.upgrade.window import Window


@dataclass
class World:
    """What all nodes share: how many are worked on now and were at most, and in which order they began."""

    now: int = 0
    most: int = 0
    began: list[str] = field(default_factory=list)
    alone: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Doer:
    """A node; `fails` in this phase with this result or error."""

    world: World
    fails: dict[Phase, Result | Exception] = field(default_factory=dict)
    hold: threading.Event | None = None

    def save(self, record: NodeRecord) -> None:
        trouble = self.fails.get(record.phase)
        if isinstance(trouble, Exception):
            raise trouble

    def do(self, record: NodeRecord) -> Done:
        world = self.world
        if record.phase is Phase.LOCK:
            with world.lock:
                world.began.append(record.host)
                world.now += 1
                world.most = max(world.most, world.now)
            if self.hold is not None:
                self.hold.wait(0.2)
            world.alone[record.host] = world.now
        failing = self.fails.get(record.phase)
        result = failing if isinstance(failing, Result) else Result.OK
        if record.phase is Phase.UNCORDON or result is not Result.OK:
            with world.lock:
                world.now -= 1
        return Done(result, record, "" if result is Result.OK else "it failed")


def task(world: World, name: str, **given: object) -> Task:
    fails = given.pop("fails", {})
    doer = Doer(world, fails, threading.Event())  # type: ignore[arg-type]
    return Task(NodeRecord(name, source="1", target="2"), doer, **given)  # type: ignore[arg-type]


def rolling(options: RollOptions, aborted: Callable[[], bool] = lambda: False) -> Rolling:
    return Rolling(options, lambda kind, record, text: None, threading.Event(), aborted)


def phases(roll: Rolling) -> dict[str, Phase]:
    return {name: record.phase for name, record in roll.records.items()}


def test_why_a_host_is_where_it_is_is_told_even_if_it_cannot_keep_its_record() -> None:
    """A plain host that doesn't come back from its restart: there is nowhere to write that to."""
    roll = rolling(RollOptions(reboot="always"))
    away = {Phase.REBOOT: Result.FAILED, Phase.MARK_UNHEALTHY: Unreachable("gpu1 can't be reached")}
    lost = task(World(), "gpu1", fails=away)
    roll.run([replace(lost, record=replace(lost.record, reboot=True))])
    assert phases(roll) == {"gpu1": Phase.REBOOT}
    assert roll.records["gpu1"].reason == "it failed"
    assert "can't be reached" in roll.stopped


def test_never_more_at_once_than_allowed() -> None:
    world = World()
    roll = rolling(RollOptions(max_unavailable=2))
    roll.run([task(world, f"gpu{n}") for n in range(5)])
    assert set(phases(roll).values()) == {Phase.DONE}
    assert world.most == 2
    assert roll.stopped == ""


def test_canary_and_control_plane_are_alone() -> None:
    world = World()
    roll = rolling(RollOptions(max_unavailable=3))
    roll.run([task(world, "a", canary=True), task(world, "b"), task(world, "c"), task(world, "cp", serial=True)])
    assert world.began[0] == "a"
    assert world.began[-1] == "cp"
    assert (world.alone["a"], world.alone["cp"]) == (1, 1)


def test_it_stops_after_more_failures_than_allowed() -> None:
    for allowed, begun in ((0, ["a"]), (1, ["a", "b"]), (2, ["a", "b", "c"])):
        world = World()
        roll = rolling(RollOptions(max_failures=allowed))
        evicting = {Phase.EVICT: Result.FAILED}
        roll.run([task(world, name, fails=dict(evicting)) for name in ("a", "b", "c")])
        assert world.began == begun
        assert ("failed" in roll.stopped) is (allowed < 3 and len(begun) > allowed)


def test_a_node_that_needs_a_person_ends_the_roll_whatever_is_allowed() -> None:
    world = World()
    roll = rolling(RollOptions(max_failures=9, rollback="never"))
    roll.run([task(world, "a", fails={Phase.INSTALL: Result.FAILED}), task(world, "b")])
    assert world.began == ["a"]
    assert roll.stopped == "a needs a person"


@pytest.mark.parametrize("error", [LeaseLost("taken over"), ApiUnreachable("the API is gone")])
def test_what_cant_be_recorded_is_not_done_and_its_phase_is_told(error: Exception) -> None:
    world = World()
    roll = rolling(RollOptions())
    roll.run([task(world, "a", fails={Phase.INSTALL: error}), task(world, "b")])
    assert world.began == ["a"]
    assert roll.records["a"].phase is Phase.UNLOAD, "the last phase that was recorded"
    assert str(error) in roll.stopped


def test_an_abort_lets_the_node_end_and_begins_no_other() -> None:
    world = World()
    roll = rolling(RollOptions(), aborted=lambda: bool(world.began))
    roll.run([task(world, "a"), task(world, "b")])
    assert phases(roll) == {"a": Phase.DONE}
    assert "--abort" in roll.stopped


class Closed(Window):
    """A window that doesn't open."""

    def open_at(self, moment: datetime) -> bool:
        return False

    def next_opening(self, moment: datetime) -> datetime:
        return datetime(2099, 1, 3, 2, 0, tzinfo=UTC)


def test_nodes_begin_only_in_the_window_and_one_in_the_middle_is_finished() -> None:
    world = World()
    told: list[str] = []
    roll = rolling(RollOptions())

    def tell(kind: str, record: NodeRecord, text: str) -> None:
        if "window" in text:
            told.append(f"{record.host}: {text}")
            roll.stop.set()

    roll.tell = tell
    roll.window = Closed((), "never")
    middle = task(world, "a")
    middle.record = NodeRecord("a", phase=Phase.LOCK, source="1", target="2")
    roll.run([middle, task(world, "b")])
    assert world.began == ["a"]
    assert told == ["b: waiting for the window, which opens Sat 2099-01-03 02:00 UTC"]
    assert roll.stopped == "interrupted"


def test_the_others_wait_for_the_canarys_word() -> None:
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    def yes(question: str) -> bool:
        return not no(question)

    for answer, begun in ((yes, ["a", "b"]), (no, ["a"])):
        world = World()
        roll = rolling(RollOptions(canary="a"))
        roll.ask_canary = answer
        roll.run([task(world, "a", canary=True), task(world, "b")])
        assert world.began == begun
    assert asked == ["a is done. Go on with the others?"] * 2
