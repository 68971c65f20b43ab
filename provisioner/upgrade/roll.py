"""Nodes one after the other, or a few at once: the canary, the window, and where it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from provisioner.errors import ProvisionError
from provisioner.model.upgrade import ENDED, NodeRecord, Phase, RollOptions
from provisioner.upgrade.node import Doer, Tell, drive, one_line
from provisioner.upgrade.window import Window

WELL = frozenset({Phase.DONE})
POLL = 0.5


@dataclass
class Task:
    """A node to be driven: its record so far and who does its phases."""

    record: NodeRecord
    doer: Doer
    canary: bool = False
    serial: bool = False


@dataclass
class Rolling:
    """The state of a roll while it runs. `stopped`: why no further node is begun, "" while more may be."""

    options: RollOptions
    tell: Tell
    stop: threading.Event
    aborted: Callable[[], bool]
    window: Window | None = None
    ask_canary: Callable[[str], bool] | None = None
    records: dict[str, NodeRecord] = field(default_factory=dict)
    stopped: str = ""
    lost: ProvisionError | None = None

    def run(self, tasks: Sequence[Task]) -> None:
        """Drive all of them, at most `max_unavailable` at once; the canary and members of the control plane alone.

        No further node is begun after more than `max_failures` failed, after an abort, or when the lease is gone;
        nodes that were begun come to their end, unless the run itself was interrupted.
        """
        waiting = list(tasks)
        with ThreadPoolExecutor(max_workers=max(1, self.options.max_unavailable), thread_name_prefix="node") as pool:
            running: dict[Future[None], Task] = {}
            while waiting or running:
                while waiting and self._room(waiting[0], list(running.values())):
                    if not self._may_begin(waiting[0]):
                        waiting.clear()
                        break
                    task = waiting.pop(0)
                    running[pool.submit(self._drive, task)] = task
                done, _ = wait(running, timeout=POLL, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    future.result()
                    self._after(task, more=bool(waiting))
        if self.stop.is_set():
            self.stopped = self.stopped or "interrupted"

    def _room(self, next_one: Task, running: Sequence[Task]) -> bool:
        alone = next_one.canary or next_one.serial or any(task.canary or task.serial for task in running)
        return len(running) < (1 if alone else self.options.max_unavailable)

    def _may_begin(self, task: Task) -> bool:
        """Wait for the window; then: may this node be begun?"""
        resumed = task.record.phase not in (Phase.PENDING, *ENDED)
        while not self.stopped and not self.stop.is_set() and not resumed and self.window is not None:
            now = datetime.now(UTC)
            if self.window.open_at(now):
                break
            opening = self.window.next_opening(now)
            self.tell(
                "phase-progress", task.record, f"waiting for the window, which opens {opening:%a %Y-%m-%d %H:%M %Z}"
            )
            self.stop.wait(min(60.0, max(1.0, (opening - now).total_seconds())))
        if self.stop.is_set():
            self.stopped = self.stopped or "interrupted"
        elif self.aborted() and not resumed:
            self.stopped = self.stopped or "somebody asked for its end (--abort)"
        return not self.stopped

    def _drive(self, task: Task) -> None:
        host = task.record.host

        def tell(kind: str, record: NodeRecord, text: str) -> None:
            if kind == "phase-started":
                self.records[host] = record
            elif kind == "phase-failed":
                # A host without a cluster that stays away can't keep its record: then this is all that is known.
                self.records[host] = replace(record, reason=text)
            self.tell(kind, record, text)

        try:
            self.records[host] = drive(task.record, task.doer, self.options, tell=tell, stopping=self.stop.is_set)
        except ProvisionError as error:
            # The lease is gone, or where the node is can't be recorded: it stays in its phase, for --resume.
            self.lost = error
            self.stopped = self.stopped or one_line(error)
            self.tell("phase-failed", self.records.get(host, task.record), one_line(error))

    def _after(self, task: Task, *, more: bool) -> None:
        """What the end of a node means for those that wait."""
        record = self.records.get(task.record.host)
        failed = [each.host for each in self.records.values() if each.phase in ENDED and each.phase not in WELL]
        if record is not None and record.phase is Phase.BROKEN:
            self.stopped = self.stopped or f"{record.host} needs a person"
        elif len(failed) > self.options.max_failures:
            self.stopped = self.stopped or f"{len(failed)} failed: {', '.join(failed)}"
        if self.stopped or not more:
            return
        if task.canary and record is not None:
            self._canary_passed(record)
        elif self.options.pause_between:
            self.stop.wait(self.options.pause_between)

    def _canary_passed(self, record: NodeRecord) -> None:
        if self.options.soak:
            self.tell("phase-progress", record, f"the canary works; the others begin in {self.options.soak:.0f} s")
            self.stop.wait(self.options.soak)
        if self.ask_canary is not None and not self.ask_canary(f"{record.host} is done. Go on with the others?"):
            self.stopped = "it was asked for after the canary"
