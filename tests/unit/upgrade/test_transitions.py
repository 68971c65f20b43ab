"""The table leads every node to an end, whatever fails, and to no end that isn't what happened."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.model.upgrade import ENDED, TOUCHED, NodeRecord, Phase, Result, RollOptions
from provisioner.upgrade.transitions import following

OPTIONS = st.builds(
    RollOptions, reboot=st.sampled_from(["auto", "always", "never"]), rollback=st.sampled_from(["auto", "never"])
)
POSSIBLE = {
    Phase.UNLOAD: [Result.OK, Result.FAILED, Result.BUSY],
    Phase.LOAD: [Result.OK, Result.FAILED, Result.RETRY_REBOOT],
    Phase.PENDING: [Result.OK],
}
LIVE = [phase for phase in Phase if phase not in ENDED]


def results(phase: Phase) -> list[Result]:
    return POSSIBLE.get(phase, [Result.OK, Result.FAILED])


def walk(options: RollOptions, choose: list[int], start: NodeRecord) -> list[tuple[NodeRecord, Result]]:
    """From a record to its end, each phase ending as `choose` picks; then well."""
    passed: list[tuple[NodeRecord, Result]] = []
    record = start
    for step in range(60):
        if record.phase in ENDED:
            return [*passed, (record, Result.OK)]
        possible = results(record.phase)
        result = possible[choose[step] % len(possible)] if step < len(choose) else Result.OK
        passed.append((record, result))
        record = following(record, result, options)
    raise AssertionError([entry.phase.value for entry, _ in passed])


CHOICES = st.lists(st.integers(0, 2), max_size=40)


@given(OPTIONS, CHOICES, st.booleans())
def test_every_node_comes_to_an_end(options: RollOptions, choose: list[int], reboot: bool) -> None:
    walk(options, choose, NodeRecord("h", reboot=reboot))


@given(OPTIONS, CHOICES, st.booleans())
def test_the_end_is_what_happened(options: RollOptions, choose: list[int], reboot: bool) -> None:
    passed = walk(options, choose, NodeRecord("h", reboot=reboot))
    end = passed[-1][0]
    phases = [record.phase for record, _ in passed]
    failed = [record for record, result in passed if result in (Result.FAILED, Result.RETRY_REBOOT)]
    if end.phase is Phase.DONE:
        assert not end.back
        verified = passed[phases.index(Phase.VERIFY_CLUSTER)]
        assert verified[1] is Result.OK
    if end.phase is Phase.ROLLED_BACK:
        assert end.back
        assert any(record.phase in TOUCHED and not record.back for record in failed)
    if end.phase is Phase.FAILED:
        changed = [
            r for r, result in passed if r.phase is Phase.INSTALL or (r.phase is Phase.UNLOAD and result.value == "ok")
        ]
        assert not changed, "what was touched is never called untouched"
    if end.phase is Phase.BROKEN:
        assert Phase.MARK_UNHEALTHY in phases
        assert Phase.UNCORDON not in phases[phases.index(Phase.MARK_UNHEALTHY) :]


@given(OPTIONS, CHOICES, st.booleans())
def test_the_way_back_is_taken_once(options: RollOptions, choose: list[int], reboot: bool) -> None:
    backs = [record.back for record, _ in walk(options, choose, NodeRecord("h", reboot=reboot))]
    assert backs == sorted(backs)
    if options.rollback == "never":
        assert not any(backs)


@given(OPTIONS, CHOICES, st.booleans())
def test_never_means_never(options: RollOptions, choose: list[int], reboot: bool) -> None:
    start = NodeRecord("h", reboot=reboot and options.reboot != "never")
    if options.reboot == "never":
        assert all(record.phase is not Phase.REBOOT for record, _ in walk(options, choose, start))


@given(OPTIONS, CHOICES)
def test_what_is_uncordoned_was_verified_on_the_same_way(options: RollOptions, choose: list[int]) -> None:
    verified: set[tuple[Phase, bool]] = set()
    for record, result in walk(options, choose, NodeRecord("h")):
        if record.phase is Phase.UNCORDON:
            assert {(Phase.VERIFY_HOST, record.back), (Phase.VERIFY_CLUSTER, record.back)} <= verified
        if result is Result.OK:
            verified.add((record.phase, record.back))


@pytest.mark.parametrize("phase", LIVE)
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("reboot", [False, True])
def test_a_phase_has_an_answer_to_every_result_it_may_give(phase: Phase, back: bool, reboot: bool) -> None:
    for result in results(phase):
        if phase is Phase.PENDING and back:
            continue
        record = NodeRecord("h", phase=phase, back=back, reboot=reboot)
        assert following(record, result, RollOptions()).phase is not phase


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase in ENDED])
def test_nothing_follows_an_end(phase: Phase) -> None:
    with pytest.raises(ValueError, match="nothing follows"):
        following(NodeRecord("h", phase=phase), Result.OK, RollOptions())


def test_the_plain_way() -> None:
    assert [record.phase.value for record, _ in walk(RollOptions(), [], NodeRecord("h"))] == [
        "pending",
        "locking",
        "cordoning",
        "waiting-for-jobs",
        "evicting",
        "stopping-clients",
        "unloading",
        "installing",
        "loading",
        "verifying-host",
        "starting-clients",
        "verifying-cluster",
        "uncordoning",
        "done",
    ]


def test_a_busy_module_is_replaced_by_a_reboot() -> None:
    record = NodeRecord("h", phase=Phase.UNLOAD)
    busy = following(record, Result.BUSY, RollOptions())
    assert (busy.phase, busy.reboot) == (Phase.INSTALL, True)
    assert following(busy, Result.OK, RollOptions()).phase is Phase.REBOOT
    assert following(record, Result.BUSY, RollOptions(reboot="never")).phase is Phase.RELEASE
    back = replace(record, back=True)
    assert following(back, Result.BUSY, RollOptions(reboot="never")).phase is Phase.MARK_UNHEALTHY
