"""What a run is doing, as one prefixed line per event: for pipes, CI jobs and anything that isn't a terminal."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from provisioner.model.event import Event
from provisioner.report.paint import PLAIN, Paint
from provisioner.report.printable import one_line

ALWAYS = frozenset({"change-failed", "host-failed", "phase-failed", "warning", "run-stopping"})
"""Events that `-q` doesn't silence."""

DETAIL = frozenset(
    {
        *("host-connecting", "host-observing", "host-observed", "host-planned", "stage-done", "phase-done"),
        *("host-done", "run-done"),
    }
)
"""Events that only `-v` shows."""

_WORDS = {"change-started": "…", "change-done": "done:", "change-failed": "failed:", "phase-failed": "failed:"}
"""What stands before the text of an event about a change or a phase."""

_PLAIN = {
    "host-connecting": "connecting",
    "host-observing": "reading",
    "host-observed": "read",
    "host-planned": "planned",
    "host-rebooting": "restarting",
    "host-back": "is back",
    "host-done": "done",
    "run-started": "started",
    "run-done": "ended",
    "roll-started": "roll started",
    "roll-done": "roll ended",
    "phase-started": "begun",
    "phase-done": "done",
    "node-ended": "",
}
"""What an event without a text of its own says."""

_STYLE = {
    "change-done": "green",
    "change-failed": "bold red",
    "host-failed": "bold red",
    "phase-failed": "bold red",
    "node-ended": "bold",
    "warning": "yellow",
    "run-stopping": "magenta",
    "stage-started": "bold",
}


class Progress(Protocol):
    """Something that shows events while a run goes on. Called from several threads at once."""

    def __call__(self, event: Event) -> None:
        """Show one event."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Keep the terminal free for a question."""
        ...

    def close(self) -> None:
        """Show nothing more; may be called twice."""
        ...


class Lines:
    """Prints events as lines: "gpu03 containerd: failed …"."""

    def __init__(self, stream: TextIO | None = None, paint: Paint = PLAIN, verbosity: int = 0) -> None:
        self._stream = stream or sys.stderr
        self._paint = paint
        self._verbosity = verbosity
        self._printing = threading.RLock()
        self._failed: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Print the event if the verbosity asks for it."""
        if not wanted(event, self._verbosity):
            return
        with self._printing:
            if event.kind == "change-failed":
                self._failed.add(event.host)
            if event.kind != "host-failed" or event.host not in self._failed:  # that would say the same again
                print(line(event, self._paint), file=self._stream, flush=True)

    def paused(self) -> AbstractContextManager[None]:
        """Holds lines back until the question is answered."""
        return _Held(self._printing)

    def close(self) -> None:
        """Nothing is kept open."""


class _Held(AbstractContextManager[None]):
    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def wanted(event: Event, verbosity: int) -> bool:
    """Whether an event is shown at this verbosity: -1 only what went wrong, 0 changes and stages, 1 everything."""
    if event.kind in ALWAYS:
        return True
    return verbosity >= (1 if event.kind in DETAIL else 0)


def line(event: Event, paint: Paint = PLAIN) -> str:
    """One event as one line, the host first."""
    said = happening(event)
    where = " ".join(part for part in (event.host, event.stage) if part) or "run"
    shown = (
        said if event.host and said.startswith(f"{event.host}: ") else one_line(f"{where}: {said}" if said else where)
    )
    return paint(_STYLE[event.kind], shown) if event.kind in _STYLE else shown


def happening(event: Event) -> str:
    """What happened, without where. A failure's text may be a whole output: its last line is shown here, more of it
    in the recap."""
    text = event.text.strip() or _PLAIN.get(event.kind, event.kind.replace("-", " "))
    if event.kind == "change-failed":
        text = f"{event.change}: {text.splitlines()[-1]}"
    elif event.kind == "host-failed":
        text = text.splitlines()[0]
    return one_line(f"{_WORDS[event.kind]} {text}" if event.kind in _WORDS else text)
