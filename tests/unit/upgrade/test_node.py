"""One node through its phases: what is recorded, and who is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from provisioner.errors import ApiUnreachable, HostLocked, Interrupted, ProvisionError, Unreachable
from provisioner.model.upgrade import NodeRecord, Phase, Result, RollOptions
from provisioner.upgrade.node import PATIENCE, Done, drive


@dataclass
class Doer:
    """`troubles`: errors that a phase raises before it works; `results` of phases that don't end well."""

    troubles: dict[Phase, list[Exception]] = field(default_factory=dict)
    results: dict[Phase, tuple[Result, str]] = field(default_factory=dict)
    saved: list[Phase] = field(default_factory=list)
    done: list[Phase] = field(default_factory=list)
    now: float = 0.0

    def save(self, record: NodeRecord) -> None:
        self.saved.append(record.phase)

    def do(self, record: NodeRecord) -> Done:
        if self.troubles.get(record.phase):
            raise self.troubles[record.phase].pop(0)
        self.done.append(record.phase)
        result, reason = self.results.get(record.phase, (Result.OK, ""))
        return Done(result, record, reason)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def go(doer: Doer, options: RollOptions | None = None, phase: Phase = Phase.PENDING) -> NodeRecord:
    record = NodeRecord("gpu01", phase=phase, source="1", target="2")
    return drive(
        record,
        doer,
        options or RollOptions(),
        tell=lambda kind, record, text: None,
        stopping=lambda: False,
        clock=lambda: doer.now,
        sleep=doer.sleep,
    )


def test_each_phase_that_does_something_is_recorded_once_before_it() -> None:
    doer = Doer()
    assert go(doer).phase is Phase.DONE
    assert doer.saved == [*doer.done, Phase.DONE]
    assert Phase.WAIT_JOBS not in doer.saved, "there is nothing to wait for"
    waiting = Doer()
    go(waiting, RollOptions(wait_for_jobs="app=train"))
    assert Phase.WAIT_JOBS in waiting.saved


@pytest.mark.parametrize("error", [Unreachable("away"), ApiUnreachable("away"), HostLocked("apply runs")])
def test_what_does_not_answer_is_asked_again(error: ProvisionError) -> None:
    doer = Doer(troubles={Phase.INSTALL: [error, error]})
    assert go(doer).phase is Phase.DONE
    assert doer.done.count(Phase.INSTALL) == 1


def test_patience_has_an_end() -> None:
    doer = Doer(troubles={Phase.EVICT: [Unreachable("no route")] * 1000})
    record = go(doer)
    assert record.phase is Phase.FAILED
    assert "no route" in record.reason
    assert PATIENCE <= doer.now < PATIENCE + 10


def test_a_host_that_another_run_works_on_is_left_to_it_before_anything_began() -> None:
    doer = Doer(troubles={Phase.LOCK: [HostLocked("ann@desk has held this host")]})
    record = go(doer)
    assert record.phase is Phase.FAILED
    assert "ann@desk" in record.reason
    assert doer.done == []
    assert doer.now == 0.0


def test_an_interrupted_wait_leaves_the_phase_to_be_done_again() -> None:
    doer = Doer(troubles={Phase.EVICT: [Interrupted("Ctrl-C")]})
    record = go(doer)
    assert record.phase is Phase.EVICT
    assert doer.saved[-1] is Phase.EVICT
    assert go(doer, phase=record.phase).phase is Phase.DONE


def test_the_reason_of_a_failure_outlives_the_way_back() -> None:
    doer = Doer(results={Phase.VERIFY_HOST: (Result.FAILED, "card 1 computes wrong")})
    record = go(doer)
    assert record.phase is Phase.BROKEN, "with the previous driver it computes wrong too"
    assert "card 1 computes wrong" in record.reason
