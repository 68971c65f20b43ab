"""The question before anything is changed, and what happens where nobody can answer it."""

from __future__ import annotations

import sys
from typing import Protocol

from provisioner.cli.interrupt import Interrupts
from provisioner.errors import Interrupted, ProvisionError
from provisioner.report import hints
from provisioner.report.hints import Invocation
from provisioner.report.progress import Progress


class Asking(Protocol):
    """What can ask a person."""

    def ask(self, question: str) -> bool:
        """Only y or yes is yes. The end of the input is no. Ctrl-C raises KeyboardInterrupt."""
        ...


def answered(question: str, progress: Progress, interrupts: Interrupts) -> bool:
    """Ask while nothing else is shown. See Asking.ask."""
    with progress.paused(), interrupts.asking():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def agree(work: Asking, question: str, call: Invocation, why: str = "") -> None:
    """Ask; raise ProvisionError where the answer is no or there is no terminal, Interrupted for Ctrl-C.

    `why` says what a yes would have done.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ProvisionError(
            "nothing was changed: there is no terminal to ask on, and --yes wasn't given",
            why=why,
            remedy=f"if it is what you want: {hints.without_terminal(call)}",
        )
    try:
        agreed = work.ask(question)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing was changed") from None
    if not agreed:
        raise ProvisionError("nothing was changed", why="the answer was no")
