"""Where a command's answer goes: text or one JSON document to stdout, what happens meanwhile to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from provisioner.errors import ProvisionError, UsageError
from provisioner.report.paint import Paint
from provisioner.report.printable import printable

if TYPE_CHECKING:
    from provisioner.model.event import Event
    from provisioner.report.progress import Progress


@dataclass(frozen=True, slots=True)
class View:
    """How this command answers. `verbosity` is -1 (-q), 0, 1 (-v) or more; `color` "auto", "always" or "never"."""

    command: str
    as_json: bool = False
    verbosity: int = 0
    color: str = "auto"
    events: Path | None = None

    @property
    def paint(self) -> Paint:
        """Colour for stdout."""
        return Paint(colour(self.color, sys.stdout))

    def answer(self, exit_code: int, text: str, /, **content: Any) -> int:
        """Print the result, `text` for people or `content` as a document, and give the exit code back."""
        if self.as_json:
            from provisioner.report import json_doc

            sys.stdout.write(json_doc.dumps(json_doc.document(self.command, exit_code, **content)))
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
        return exit_code

    def show(self, text: str) -> None:
        """Part of the answer that a JSON document holds anyway: stdout, or nothing with --json."""
        if not self.as_json:
            sys.stdout.write(text)
            sys.stdout.flush()

    def say(self, text: str) -> None:
        """A word for the person at the terminal: stderr, nothing with -q."""
        if self.verbosity >= 0:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def progress(self, roll: bool = False) -> Iterator[Progress]:
        """What shows events during a run, or during a `roll`, and writes them to the `--events` file."""
        shown = self._progress(roll)
        if self.events is None:
            try:
                yield shown
            finally:
                shown.close()
            return
        from provisioner.report.events import EventFile

        try:
            file = EventFile(self.events)
        except OSError as error:
            raise UsageError(
                f"can't write events to {self.events}",
                why=error.strerror or str(error),
                remedy="name another --events FILE",
            ) from error
        try:
            yield _Both(shown, file)
        finally:
            shown.close()
            file.close()

    def _progress(self, roll: bool) -> Progress:
        painted = colour(self.color, sys.stderr)
        if sys.stderr.isatty() and self.verbosity >= 0 and os.environ.get("TERM", "dumb") != "dumb":
            from provisioner.report.live import LiveView
            from provisioner.report.upgrade_live import RollView

            return LiveView(sys.stderr, painted, self.verbosity, RollView() if roll else None)
        from provisioner.report.progress import Lines

        return Lines(sys.stderr, Paint(painted), self.verbosity)


class _Both:
    def __init__(self, shown: Progress, file: Any) -> None:
        self._shown, self._file = shown, file
        self.paused, self.close = shown.paused, shown.close

    def __call__(self, event: Event) -> None:
        self._file(event)
        self._shown(event)


def colour(choice: str, stream: TextIO) -> bool:
    """Whether `stream` gets colour: with "auto" on a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def report_error(error: ProvisionError, command: str, as_json: bool) -> int:
    """Say what happened, why, and what to do: as text to stderr, or as the command's one JSON document."""
    if as_json:
        from provisioner.report import json_doc

        sys.stdout.write(json_doc.dumps(json_doc.error(command, error)))
        sys.stdout.flush()
    else:
        print(printable(f"error: {error}"), file=sys.stderr, flush=True)
    return error.exit_code
