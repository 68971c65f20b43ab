"""What is shown while a run goes on."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from provisioner.model.event import Event, EventKind
from provisioner.report.events import EventFile
from provisioner.report.live import LiveView, View
from provisioner.report.progress import Lines


def event(kind: EventKind, host: str = "gpu03", text: str = "", at: float = 100.0, stage: str = "containerd") -> Event:
    return Event(kind, at, host, stage, "containerd/containerd:/etc/x" if kind.startswith("change") else "", text)


EVENTS = [
    event("host-observing", stage=""),
    event("stage-started", text="1 changes"),
    event("change-started", text="nvidia handler"),
    event("change-failed", text="lines\nof output\nit \x1b[1mbroke\n"),
    event("host-failed", text="cut off\n  in the middle"),
]


@pytest.mark.parametrize(
    ("verbosity", "lines"),
    [
        (-1, 1),
        (0, 3),
        (1, 4),
    ],
)
def test_lines(verbosity: int, lines: int) -> None:
    stream = io.StringIO()
    show = Lines(stream, verbosity=verbosity)
    for each in EVENTS:
        show(each)
    said = stream.getvalue().splitlines()
    assert len(said) == lines
    assert said[-1] == "gpu03 containerd: failed: containerd/containerd:/etc/x: it \\x1b[1mbroke"


def test_a_host_that_failed_without_a_change_is_told() -> None:
    stream = io.StringIO()
    Lines(stream, verbosity=-1)(event("host-failed", text="gpu03: cut off\n  in the middle", stage=""))
    assert stream.getvalue() == "gpu03: cut off\n"


def test_the_view_is_never_higher_than_the_terminal() -> None:
    view = View()
    for number in range(500):
        view.take(event("host-observing", f"gpu{number:03d}", at=100.0 + number, stage=""))
    for height in (1, 2, 5, 24):
        lines = view.lines(height, 700.0)
        assert len(lines) == height
    assert view.lines(24, 700.0)[0][0] == "500 of 500 hosts at work · 0 done"
    assert view.lines(24, 700.0)[1][0] == "  gpu000  10m00s  reading"
    assert view.lines(24, 700.0)[-1][0] == "  … and 478 more hosts"


def test_the_view_counts_ends_and_failures() -> None:
    view = View()
    for each in (
        event("host-observing", "a"),
        event("host-planned", "a"),
        event("host-observing", "b"),
        event("host-failed", "b"),
        event("stage-started", "c"),
        event("change-done", "c"),
    ):
        view.take(each)
    assert view.lines(10, 101.0)[0][0] == "1 of 3 hosts at work · 1 done · 1 failed · 1 change made"


def test_a_live_view_takes_events_from_many_threads_and_keeps_failures() -> None:
    """Refreshing and printing happen in different threads; each waiting for the other would hang here."""
    stream = io.StringIO()
    show = LiveView(stream, colour=False)

    def work(number: int) -> None:
        for _ in range(20):
            show(event("change-started", f"gpu{number}"))
            show(event("change-failed", f"gpu{number}", text=f"broke on {number}"))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    with show.paused():
        pass
    show(Event("run-done", 1.0))
    show.close()
    assert stream.getvalue().count("broke on 7") == 20


def test_event_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    file = EventFile(path)
    file(event("change-done", text="ü\n"))
    file.close()
    file(event("change-done"))
    [line] = path.read_text(encoding="ascii").splitlines()
    assert json.loads(line)["text"] == "ü\n"
    assert json.loads(line)["kind"] == "change-done"
