"""A live view of a run for a terminal: a row per host at work, never higher than the terminal.

What went wrong is printed above the view and stays. The only importer of rich; loaded when a run starts on a
terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from provisioner.model.event import Event
from provisioner.report.names import counted, duration
from provisioner.report.printable import one_line
from provisioner.report.progress import ALWAYS, happening, line

_ENDED = {"host-done": "done", "host-failed": "failed"}
_BEGINS = frozenset({"host-connecting", "host-observing", "stage-started", "change-started", "host-rebooting"})
_OVER = frozenset({"run-done", "roll-done"})
_STAYS = ALWAYS | {"node-ended"}


@dataclass(slots=True)
class Row:
    """What one host does now. `since` is when it began, in seconds since the epoch."""

    text: str
    since: float
    ended: str = ""
    changed: int = 0


class View:
    """The state behind the live view, and its rows for a given room."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def take(self, event: Event) -> None:
        """Follow one event."""
        if not event.host:
            return
        row = self.rows.setdefault(event.host, Row("", event.at))
        if event.kind in _ENDED:
            row.ended = _ENDED[event.kind]
        elif event.kind in _BEGINS:
            row.ended, row.since = "", event.at
        elif event.kind in ("host-planned", "host-observed"):
            row.ended = "done"
        if event.kind == "change-done":
            row.changed += 1
        row.text = " ".join(part for part in (one_line(event.stage), happening(event)) if part)

    def lines(self, height: int, now: float) -> list[tuple[str, str]]:
        """(text, style) of at most `height` lines: a count, the hosts at work by longest first, what is left out."""
        working = sorted(
            ((name, row) for name, row in self.rows.items() if not row.ended), key=lambda item: item[1].since
        )
        ends = [row.ended for row in self.rows.values()]
        parts = [f"{len(working)} of {counted(len(self.rows), 'host')} at work", f"{ends.count('done')} done"]
        if "failed" in ends:
            parts.append(f"{ends.count('failed')} failed")
        changed = sum(row.changed for row in self.rows.values())
        if changed:
            parts.append(f"{counted(changed, 'change')} made")
        made = [(" · ".join(parts), "bold")]
        room = max(0, height - 1)
        shown = working if len(working) <= room else working[: max(0, room - 1)]
        width = max((len(name) for name, _ in shown), default=0)
        made += [
            (f"  {one_line(name):<{width}}  {duration(max(0.0, now - row.since)):>6}  {row.text}", "")
            for name, row in shown
        ]
        if len(shown) < len(working) and room:
            made.append((f"  … and {counted(len(working) - len(shown), 'more host')}", "dim"))
        return made[: max(1, height)]


class State(Protocol):
    """What a live view shows: follows events, and tells its lines."""

    def take(self, event: Event) -> None:
        """Follow one event."""
        ...

    def lines(self, height: int, now: float) -> list[tuple[str, str]]:
        """(text, style) of at most `height` lines."""
        ...


class LiveView:
    """Shows a state, a `View` unless another is given, on a terminal and refreshes it four times a second."""

    def __init__(
        self, stream: TextIO | None = None, colour: bool = True, verbosity: int = 0, state: State | None = None
    ) -> None:
        self._console = Console(
            file=stream or sys.stderr, no_color=not colour, highlight=False, markup=False, emoji=False
        )
        self._view = state or View()
        self._verbosity = verbosity
        # Two locks: rich's refreshing thread holds its own lock when it asks for the lines, so what is held then
        # (`_state`) must never be held by whoever calls into rich.
        self._state = threading.Lock()
        self._control = threading.RLock()
        self._live: Live | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._state:
            lines = self._view.lines(max(2, min(console.size.height - 2, 30)), time.time())
        for text, style in lines:
            yield Text(text, style=style, no_wrap=True, overflow="ellipsis")

    def __call__(self, event: Event) -> None:
        """Follow one event; starts the view with the first."""
        with self._state:
            self._view.take(event)
        with self._control:
            if event.kind in _OVER:
                self._stop()
            elif self._live is None and event.kind != "run-stopping":
                self._start()
            stays = event.kind in _STAYS or (self._verbosity > 0 and event.kind.startswith(("change-", "stage-")))
            if stays:
                style = "bold red" if event.kind.endswith("failed") else "yellow" if event.kind in ALWAYS else ""
                self._console.print(Text(line(event), style=style), soft_wrap=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes the view off the screen while a question is asked."""
        with self._control:
            running = self._live is not None
            self._stop()
            try:
                yield
            finally:
                if running:
                    self._start()

    def close(self) -> None:
        """Take the view off the screen; what was printed above it stays."""
        with self._control:
            self._stop()

    def _start(self) -> None:
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def _stop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
