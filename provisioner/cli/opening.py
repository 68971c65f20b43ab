"""Opens the session that a command works with, and closes it whatever happens."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provisioner.cli.consent import answered
from provisioner.cli.interrupt import Interrupts, stoppable
from provisioner.cli.options import Request
from provisioner.cli.view import View
from provisioner.errors import Interrupted
from provisioner.report.hints import Invocation
from provisioner.report.progress import Progress

if TYPE_CHECKING:
    from provisioner.engine.session import Session
    from provisioner.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """A session with what surrounds it on the terminal."""

    session: Session
    progress: Progress
    interrupts: Interrupts

    def plan(self, stage: str | None, call: Invocation) -> Plan:
        """Read the hosts and plan. Raises Interrupted after Ctrl-C: half a plan would look like a whole one."""
        found = self.session.plan(stage)
        self.progress.close()
        if self.interrupts.count:
            raise Interrupted("interrupted; nothing was changed", remedy=f"to go on: {call.again()}")
        return found

    def ask(self, question: str) -> bool:
        """See consent.Asking."""
        return answered(question, self.progress, self.interrupts)


@contextmanager
def opened(view: View, request: Request, hosts: str | None = None) -> Iterator[Work]:
    """A session over the hosts that the request selects. Connections are opened when it reads.

    `hosts` is the limit of a command that takes host names as arguments.
    """
    from provisioner import api

    with view.progress() as progress:
        session = api.open(
            request.inventory,
            playbook=request.playbook,
            limit=hosts or request.limit,
            sets=request.sets,
            options=api.Options(
                allow_no_gpu=request.allow_no_gpu,
                disruptive=request.disruptive,
                reboot=request.reboot,
                local=request.local,
            ),
            local=request.local,
            forks=request.forks,
            ask=getpass.getpass if sys.stdin.isatty() else None,
            monitor=progress,
        )
        try:
            with stoppable(session.stop) as interrupts:
                yield Work(session, progress, interrupts)
        finally:
            session.close()
