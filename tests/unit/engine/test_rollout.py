"""Hosts through stages: what is done where, in which order, and where it stops."""

from __future__ import annotations

from provisioner.engine.hostrun import HostRun
from provisioner.engine.rollout import roll
from provisioner.engine.secrets import Secrets
from provisioner.errors import Disconnected, Unreachable
from provisioner.model.action import Run
from provisioner.model.change import Change, Kind
from provisioner.model.event import Event
from provisioner.model.result import HostResult, Status
from tests.unit.engine.world import Flag, World, steps


class Fleet:
    """Some hosts with the same wishes, read and approved, ready to roll."""

    def __init__(self, count: int, *tasks: tuple[str, Flag], approve: bool = True) -> None:
        self.history: list[tuple[str, str]] = []
        self.events: list[Event] = []
        self.worlds: list[World] = []
        self.runs: list[HostRun] = []
        self.approve = approve
        self.stages = list(dict.fromkeys(stage for stage, _ in tasks))
        for number in range(1, count + 1):
            wanted = steps(f"gpu{number:02}", *tasks)
            world = World(wanted.ctx.host, wanted, history=self.history)
            self.worlds.append(world)
            self.runs.append(HostRun(wanted, world, Secrets(), self.events.append, "run-1", "me@here"))

    def go(self, *, max_failures: int = 0, interrupt_after: int | None = None) -> dict[str, HostResult]:
        for run in self.runs:
            run.observe()
            if self.approve:
                run.approve(run.plan)
        roll(
            self.runs,
            self.stages,
            forks=4,
            max_failures=max_failures,
            interrupted=lambda: interrupt_after is not None and len(self.history) >= interrupt_after,
        )
        return {run.name: run.result() for run in self.runs}


QUIET = ("files", Flag(flag="quiet"))
LOUD = ("restart", Flag(flag="loud", disruption=1))


def test_a_host_without_differences_costs_one_connection_and_one_execution() -> None:
    fleet = Fleet(1, QUIET, LOUD)
    fleet.worlds[0].flags = {"quiet": "up", "loud": "up"}
    result = fleet.go()["gpu01"]
    assert (result.status, result.changed, result.connections, result.execs) == (Status.OK, 0, 1, 1)


def test_each_stage_with_changes_costs_two_more_executions() -> None:
    result = Fleet(1, QUIET, LOUD).go()["gpu01"]
    assert (result.status, result.changed, result.execs) == (Status.CHANGED, 2, 1 + 2 * 2)


def test_a_disturbing_stage_is_done_on_one_host_before_the_others() -> None:
    fleet = Fleet(4, LOUD)
    fleet.worlds[0].breaks = {"loud"}
    results = fleet.go()
    assert fleet.history == [("gpu01", "loud")]
    assert results["gpu01"].status is Status.FAILED
    assert {results[f"gpu0{n}"].status for n in (2, 3, 4)} == {Status.STOPPED}
    assert "gpu01" in results["gpu03"].message


def test_a_disturbing_change_that_changed_nothing_on_the_first_host_stops_the_others() -> None:
    fleet = Fleet(3, LOUD, ("later", Flag(flag="later")))
    fleet.worlds[0].lies = {"loud"}
    results = fleet.go()
    assert fleet.history == [("gpu01", "loud")]
    assert results["gpu01"].message == "still different after it was done: restart/test.flag:loud"
    assert {results[name].status for name in ("gpu02", "gpu03")} == {Status.STOPPED}


def test_a_first_host_that_cannot_be_planned_for_afterwards_stops_the_others() -> None:
    fleet = Fleet(2, LOUD)
    world = fleet.worlds[0]
    run = world.run

    def run_and_hide(script: str, *, timeout: float) -> object:
        done = run(script, timeout=timeout)
        if "@stage-done" in script:
            world.unreadable = {"loud"}
        return done

    world.run = run_and_hide  # type: ignore[method-assign, assignment]
    results = fleet.go()
    assert fleet.history == [("gpu01", "loud")]
    assert [results["gpu01"].status, results["gpu02"].status] == [Status.FAILED, Status.STOPPED]


def test_a_command_by_hand_says_nothing_of_what_the_playbook_finds() -> None:
    fleet = Fleet(1, QUIET, ("second", Flag(flag="b")))
    fleet.worlds[0].unreadable = {"b"}
    run = fleet.runs[0]
    run.observe()
    run.once(Change("command", "true", Kind.RUN, (Run("setflag x y", "the command"),), task="exec", stage="exec"))
    assert (run.result().status, run.result().message) == (Status.CHANGED, "")


def test_max_failures_lets_the_others_go_on() -> None:
    fleet = Fleet(4, LOUD)
    fleet.worlds[0].breaks = {"loud"}
    results = fleet.go(max_failures=1)
    assert [results[f"gpu0{n}"].status for n in (1, 2, 3, 4)] == [Status.FAILED] + [Status.CHANGED] * 3


def test_a_failing_undisturbing_stage_stops_its_host_and_no_other() -> None:
    fleet = Fleet(3, QUIET, LOUD)
    fleet.worlds[1].breaks = {"quiet"}
    results = fleet.go()
    assert [results[f"gpu0{n}"].status for n in (1, 2, 3)] == [Status.CHANGED, Status.FAILED, Status.CHANGED]
    assert ("gpu02", "loud") not in fleet.history


def test_success_that_changed_nothing_is_a_failure() -> None:
    fleet = Fleet(1, QUIET)
    fleet.worlds[0].lies = {"quiet"}
    result = fleet.go()["gpu01"]
    assert result.status is Status.FAILED
    assert "files/test.flag:quiet" in result.message


def test_an_unknown_fact_stops_the_host_before_anything_is_done() -> None:
    fleet = Fleet(1, ("first", Flag(flag="a")), ("second", Flag(flag="b")))
    fleet.worlds[0].unreadable = {"b"}
    result = fleet.go()["gpu01"]
    assert result.status is Status.FAILED
    assert fleet.history == []
    assert "flag b" in result.message


def test_what_was_not_shown_is_not_done() -> None:
    result = Fleet(1, QUIET, approve=False).go()["gpu01"]
    assert result.changed == 0


def test_a_change_that_appears_during_the_run_waits_for_the_next() -> None:
    fleet = Fleet(1, ("first", Flag(flag="a")), ("second", Flag(flag="b")))
    world = fleet.worlds[0]
    world.flags = {"b": "up"}
    run = world.run

    def run_and_break_b(script: str, *, timeout: float) -> object:
        done = run(script, timeout=timeout)
        if "@stage-done" in script:
            world.flags["b"] = "down"
        return done

    world.run = run_and_break_b  # type: ignore[method-assign, assignment]
    result = fleet.go()["gpu01"]
    assert result.status is Status.CHANGED
    assert [change.id for change in result.deferred] == ["second/test.flag:b"]
    assert fleet.history == [("gpu01", "a")]


def test_an_unreachable_host_does_not_keep_the_others() -> None:
    fleet = Fleet(2, QUIET)
    fleet.worlds[0].unreachable = Unreachable("gpu01 can't be reached")
    results = fleet.go()
    assert [results["gpu01"].status, results["gpu02"].status] == [Status.UNREACHABLE, Status.CHANGED]


def test_a_lost_connection_is_a_failure_of_its_host() -> None:
    fleet = Fleet(1, QUIET)
    fleet.worlds[0].error = Disconnected("cut")
    assert fleet.go()["gpu01"].status is Status.FAILED


def test_an_interruption_starts_nothing_new_and_says_where_it_stopped() -> None:
    fleet = Fleet(2, ("first", Flag(flag="a", disruption=1)), ("second", Flag(flag="b")))
    results = fleet.go(interrupt_after=1)
    assert fleet.history == [("gpu01", "a")]
    assert results["gpu01"].status is Status.STOPPED
    assert results["gpu01"].changed == 1
    assert results["gpu02"].status is Status.STOPPED
