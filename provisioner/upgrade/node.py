"""One node through its phases: recorded, done, and on to what the table says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from provisioner.errors import HostLocked, Interrupted, KubeError, LeaseError, ProvisionError, TransportError
from provisioner.model.upgrade import ENDED, NodeRecord, Phase, Result, RollOptions
from provisioner.upgrade.transitions import following

PATIENCE = 180.0
"""Seconds for which a phase that found no answer (host or API away) is done anew before it counts as failed."""
PAUSE = 3.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a phase ended: its result, the record with what was learned, and why, for people."""

    result: Result
    record: NodeRecord
    reason: str = ""


class Doer(Protocol):
    """Does the side effect of a phase. Each phase may be done again after a crash."""

    def do(self, record: NodeRecord) -> Done:
        """Raises Interrupted when a wait was ended by the user, LeaseError when this run may do nothing more."""
        ...

    def save(self, record: NodeRecord) -> None:
        """Make the record durable where another controller finds it. Raises LeaseLost."""
        ...


Tell = Callable[[str, NodeRecord, str], None]
"""(kind of event, record, text)."""


def drive(
    record: NodeRecord,
    doer: Doer,
    options: RollOptions,
    *,
    tell: Tell,
    stopping: Callable[[], bool],
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> NodeRecord:
    """Take the node from its recorded phase to an end. The record is saved before each side effect.

    Returns a record that hasn't ended when `stopping()`: the phase that it names is the next to be done.
    Raises LeaseError (lost, or all rolls frozen): then nothing more may be done by this run.
    """
    while record.phase not in ENDED:
        if record.phase is Phase.PENDING or (record.phase is Phase.WAIT_JOBS and not options.wait_for_jobs):
            # Nothing is done in these, so nothing need be recorded.
            record = following(record, Result.OK, options)
            continue
        record = replace(record, since=clock())
        doer.save(record)
        if stopping():
            return record
        tell("phase-started", record, "")
        try:
            done = _patiently(doer, record, clock, sleep, stopping)
        except Interrupted as stopped:
            tell("phase-progress", record, str(stopped))
            return record
        tell("phase-done" if done.result is Result.OK else "phase-failed", done.record, done.reason)
        record = following(done.record, done.result, options)
        if record.phase is Phase.DONE:
            record = replace(record, reason=done.reason)  # what went wrong on the way was mended
        elif done.reason and (done.result is not Result.OK or record.phase in ENDED):
            record = replace(record, reason=done.reason)
    doer.save(record)
    tell("node-ended", record, record.reason)
    return record


def _patiently(
    doer: Doer,
    record: NodeRecord,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    stopping: Callable[[], bool],
) -> Done:
    """A phase, again while there is no answer. A host that doesn't come back from a restart is REBOOT's own wait."""
    end = clock() + PATIENCE
    while True:
        try:
            return doer.do(record)
        except (LeaseError, Interrupted):
            raise
        except (HostLocked, TransportError, KubeError) as error:
            # Before it was begun a host that another run works on is left to it; later its lock is waited for.
            at_once = Phase.LOCK if isinstance(error, HostLocked) else Phase.REBOOT
            if record.phase is at_once or clock() >= end:
                return Done(Result.FAILED, record, one_line(error))
            if stopping():
                raise Interrupted(f"{record.host} did not answer when the run was interrupted") from error
            sleep(PAUSE)
        except ProvisionError as error:
            return Done(Result.FAILED, record, one_line(error))


def one_line(error: ProvisionError) -> str:
    """What and why of an error, on one line."""
    return ": ".join(" ".join(part.split()) for part in (error.what, error.why) if part)
