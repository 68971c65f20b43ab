"""The live view of a roll, and its lines without a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from provisioner.model.event import Event, EventKind
from provisioner.report.live import LiveView
from provisioner.report.progress import Lines
from provisioner.report.upgrade_live import RollView


def event(
    kind: EventKind, host: str = "gpu01", stage: str = "", text: str = "", at: float = 100.0, **data: Any
) -> Event:
    return Event(kind, at, host, stage, text=text, data=data)


ROLL = [
    event("host-observing", "gpu01"),
    event("roll-started", "", nodes=["gpu01", "gpu02", "gpu03"]),
    event("phase-started", "gpu01", "evicting", since=90.0),
    event("phase-progress", "gpu01", "evicting", "waiting for 1: train/llm-0, budget train/llm\x1b[2J allows none"),
]


def follow(events: list[Event]) -> RollView:
    view = RollView()
    for each in events:
        view.take(each)
    return view


def text(view: RollView, height: int = 24, now: float = 125.0) -> list[str]:
    return [line for line, _ in view.lines(height, now)]


def test_one_line_a_node_with_phase_and_age() -> None:
    assert text(follow(ROLL)) == [
        "1 of 3 nodes at work · 2 to come",
        "  gpu01  evicting     35s  waiting for 1: train/llm-0, budget train/llm\\x1b[2J allows none",
        "  gpu02  pending",
        "  gpu03  pending",
    ]


def test_bad_ends_stay_above_good_ones() -> None:
    view = follow(
        [
            *ROLL,
            event("node-ended", "gpu01", "done", at=130.0),
            event("phase-started", "gpu02", "installing", at=131.0, back=True),
            event("node-ended", "gpu03", "broken", "no card", at=140.0),
        ]
    )
    assert text(view, now=141.0) == [
        "1 of 3 nodes at work · 1 done · 1 broken",
        "  gpu02  installing (way back)     10s",
        "  gpu03  broken                         no card",
        "  gpu01  done",
    ]


def test_until_a_node_begins_hosts_are_shown() -> None:
    assert text(follow(ROLL[:1]))[0] == "1 of 1 host at work · 0 done"


def test_a_node_that_ended_says_nothing_more() -> None:
    view = follow([*ROLL, event("node-ended", "gpu01", "failed", "budget"), event("host-done", "gpu01")])
    assert "  gpu01  failed           budget" in text(view)


@pytest.mark.parametrize("height", [1, 2, 5, 24])
def test_the_view_is_never_higher_than_the_terminal(height: int) -> None:
    view = follow([event("phase-started", f"gpu{number:03d}", "evicting") for number in range(500)])
    lines = text(view, height)
    assert len(lines) == height
    if height > 1:
        assert lines[-1].startswith("  … and ")


def test_on_a_terminal_ends_stay_above_the_view() -> None:
    stream = io.StringIO()
    view = LiveView(stream, colour=False, state=RollView())
    for each in [*ROLL, event("node-ended", "gpu01", "done"), event("roll-done", "")]:
        view(each)
    view.close()
    assert "gpu01 done\n" in stream.getvalue()


def test_without_a_terminal_each_event_is_a_line_with_its_node() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    for each in [
        *ROLL[1:],
        event("phase-done", "gpu01", "evicting"),
        event("phase-failed", "gpu01", "verifying-host", "cards: 1 of 2"),
        event("node-ended", "gpu01", "rolled-back", "cards: 1 of 2"),
        event("node-ended", "gpu02", "done"),
    ]:
        lines(each)
    assert stream.getvalue().splitlines() == [
        "run: roll started",
        "gpu01 evicting: begun",
        "gpu01 evicting: waiting for 1: train/llm-0, budget train/llm\\x1b[2J allows none",
        "gpu01 verifying-host: failed: cards: 1 of 2",
        "gpu01 rolled-back: cards: 1 of 2",
        "gpu02 done",
    ]
    quiet = io.StringIO()
    Lines(quiet, verbosity=-1)(event("phase-failed", "gpu01", "evicting", "budget"))
    assert "gpu01 evicting: failed: budget" in quiet.getvalue()
