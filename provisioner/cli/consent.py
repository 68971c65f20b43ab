"""The question before anything is changed, and what happens where nobody can answer it."""

from __future__ import annotations

import sys

from provisioner.cli.opening import Work
from provisioner.errors import Interrupted, ProvisionError
from provisioner.report import hints
from provisioner.report.hints import Invocation


def agree(work: Work, question: str, call: Invocation, why: str = "") -> None:
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
