"""Opens a roll of the cluster's nodes, with what surrounds it on the terminal."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from provisioner.cli.consent import answered
from provisioner.cli.interrupt import Interrupts, stoppable
from provisioner.cli.options import Request
from provisioner.cli.roll_options import Wanted
from provisioner.cli.view import View
from provisioner.errors import Interrupted
from provisioner.model.upgrade import RollPlan, RollReport
from provisioner.report.progress import Progress

T = TypeVar("T")


class Roller(Protocol):
    """What does the roll."""

    def plan(self) -> RollPlan:
        """Read hosts and cluster; change nothing."""
        ...

    def prepare(self, plan: RollPlan) -> RollPlan:
        """Bring all packages to the hosts; nodes for which that fails are refused."""
        ...

    def run(self, plan: RollPlan) -> RollReport:
        """Take the lease and roll."""
        ...

    def resume(self) -> RollReport:
        """Go on from what the nodes' records say."""
        ...

    def status(self) -> RollReport:
        """Where each node is; reads only."""
        ...

    def abort(self) -> str:
        """Ask the roll that holds the lease to end; its holder, "" where there is none."""
        ...

    def stop(self) -> None:
        """End waits; finish what changes something; begin nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Rolling:
    """A roll that is open."""

    roller: Roller
    progress: Progress
    interrupts: Interrupts

    def status(self) -> RollReport:
        """See Roller.status. Raises Interrupted after Ctrl-C."""
        return self._whole(self.roller.status(), "nothing was changed")

    def plan(self) -> RollPlan:
        """See Roller.plan. Raises Interrupted after Ctrl-C."""
        return self._whole(self.roller.plan(), "nothing was changed")

    def prepare(self, plan: RollPlan) -> RollPlan:
        """See Roller.prepare. Raises Interrupted after Ctrl-C."""
        return self._whole(self.roller.prepare(plan), "no node was touched; packages that were fetched stay there")

    def _whole(self, found: T, so_far: str) -> T:
        """What was read, unless reading was cut short: half of it would look like the whole."""
        self.progress.close()
        if self.interrupts.count:
            raise Interrupted(f"interrupted; {so_far}", remedy="begin again with the same command")
        return found

    def ask(self, question: str) -> bool:
        """See consent.Asking."""
        return answered(question, self.progress, self.interrupts)

    def ask_in_between(self, question: str) -> bool:
        """Ask during the roll. Ctrl-C is no, and the roll ends."""
        try:
            return self.ask(question)
        except KeyboardInterrupt:
            self.roller.stop()
            return False


@contextmanager
def rolling(view: View, request: Request, wanted: Wanted) -> Iterator[Rolling]:
    """A roll over the hosts that the request selects. Raises ConfigError, UsageError, KubeError."""
    from provisioner import api

    share = wanted.pace.endswith("%")
    hosts = len(api.load(request.inventory, limit=request.limit, sets=request.sets).hosts) if share else 0

    def canary(question: str) -> bool:
        return work.ask_in_between(question)

    with (
        view.progress(roll=True) as progress,
        api.open_roll(
            request.inventory,
            wanted.sized(hosts),
            to=wanted.to,
            toolkit=wanted.toolkit,
            limit=request.limit,
            sets=request.sets,
            ask=getpass.getpass if sys.stdin.isatty() else None,
            monitor=progress,
            ask_canary=None if wanted.yes or not sys.stdin.isatty() else canary,
        ) as roller,
        stoppable(roller.stop) as interrupts,
    ):
        work = Rolling(roller, progress, interrupts)
        yield work
