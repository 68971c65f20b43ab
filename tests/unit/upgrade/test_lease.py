"""One roll at a time: held, renewed, fenced, frozen, aborted, and taken over only from the dead."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from provisioner.errors import Frozen, LeaseHeld, LeaseLost
from provisioner.kube.api import Api
from provisioner.kube.objects import timestamp
from provisioner.upgrade import lease
from provisioner.upgrade.holder import Holder, this_process
from tests.unit.kube.memory import Clock, MemoryKubectl, api_of, merge

ALICE, BOB = Holder("alice@a"), Holder("bob@b")


def take(api: Api, clock: Clock, run: str = "r1", who: Holder = ALICE, **more: Any) -> lease.Held:
    """Acquire without renewal in the time of a test."""
    return lease.acquire(api, run, who, renew=1e6, clock=clock, wall=clock, **more)


def annotate(kubectl: MemoryKubectl, manager: str = "kubectl-annotate", **notes: str | None) -> None:
    """What `kubectl annotate` does to the lease; names with "_" for "/"."""
    named = {key.replace("_", "/").replace("provision", "provision.dev"): value for key, value in notes.items()}
    found = kubectl.objects[lease.LEASE]
    kubectl.put(lease.LEASE, merge(found, {"metadata": {"annotations": named}}), manager)


def test_the_second_is_told_who_and_since_when() -> None:
    api, clock = api_of(MemoryKubectl())
    began = clock()
    take(api, clock)
    clock.now += 20
    with pytest.raises(LeaseHeld) as caught:
        take(api, clock, "r2", BOB)
    assert (caught.value.who, caught.value.run) == ("alice@a", "r1")
    assert (caught.value.since, caught.value.expires) == (began, began + 60)
    assert "alice@a" in str(caught.value)
    assert "1970-01-12T13:46:40Z" in str(caught.value)


def test_given_back_it_is_free_and_its_token_grows() -> None:
    api, clock = api_of(MemoryKubectl())
    tokens = []
    for run in ("r1", "r2", "r3"):
        held = take(api, clock, run)
        tokens.append(held.token)
        held.release()
    assert tokens == sorted(set(tokens))
    assert lease.read(api)[0].who == ""


def test_a_deleted_lease_does_not_begin_anew() -> None:
    kubectl = MemoryKubectl()
    api, clock = api_of(kubectl)
    first = take(api, clock)
    clock.now += 5
    del kubectl.objects[lease.LEASE]
    assert take(api, clock, "r2", BOB).token > first.token
    with pytest.raises(LeaseLost):
        first.check()


def test_a_dead_holders_lease_is_watched_and_taken_over() -> None:
    api, clock = api_of(MemoryKubectl())
    dead = take(api, clock)
    clock.now += 61
    began = clock()
    heir = take(api, clock, "r2", BOB)
    assert 60 <= clock() - began < 70, "nothing proves that its clock isn't behind ours, but silence"
    assert heir.token > dead.token
    with pytest.raises(LeaseLost, match="no longer ours") as caught:
        dead.check()
    assert "bob@b" in caught.value.why


def test_of_a_lease_that_ran_out_long_ago_no_proof_is_needed() -> None:
    api, clock = api_of(MemoryKubectl())
    take(api, clock)
    clock.now += 60 + lease.SKEW + 1
    began = clock()
    take(api, clock, "r2", BOB)
    assert clock() == began


def test_a_holder_whose_clock_is_behind_keeps_its_lease() -> None:
    kubectl = MemoryKubectl()
    times: list[float] = []

    def renewed(now: float) -> None:
        if now - (times[-1] if times else 0) > 15:
            times.append(now)
            slow = {"spec": {"renewTime": timestamp(now - 200)}}
            kubectl.put(lease.LEASE, merge(kubectl.objects[lease.LEASE], slow))

    api, clock = api_of(kubectl, renewed)
    lease.acquire(api, "r1", ALICE, renew=1e6, clock=clock, wall=lambda: clock() - 200)
    with pytest.raises(LeaseHeld):
        take(api, clock, "r2", BOB)


def test_one_may_wait_for_the_other() -> None:
    kubectl = MemoryKubectl()
    held: list[lease.Held] = []

    def ends(now: float) -> None:
        if now > 1_000_030 and held:
            held.pop().release()

    api, clock = api_of(kubectl, ends)
    held.append(take(api, clock))
    assert take(api, clock, "r2", BOB, wait=50).run == "r2"
    with pytest.raises(LeaseHeld):
        take(api, clock, "r3", ALICE, wait=5)


def test_check_goes_on_after_a_long_sleep_that_nobody_used() -> None:
    api, clock = api_of(MemoryKubectl())
    held = take(api, clock)
    clock.now += 4000
    held.check()
    assert lease.read(api)[0].renewed == clock()
    with pytest.raises(LeaseHeld):
        take(api, clock, "r2", BOB)


def test_frozen_is_said_with_who_did_it() -> None:
    kubectl = MemoryKubectl()
    api, clock = api_of(kubectl)
    held = take(api, clock)
    annotate(kubectl, provision_freeze="storage is being moved")
    with pytest.raises(Frozen) as caught:
        held.check()
    assert "storage is being moved" in caught.value.why
    assert "kubectl-annotate" in caught.value.why
    assert "annotate lease provision-upgrade provision.dev/freeze-" in caught.value.remedy
    held.release()
    with pytest.raises(Frozen):
        take(api, clock, "r2", BOB)
    annotate(kubectl, provision_freeze=None)
    take(api, clock, "r2", BOB).check()


def test_renewing_keeps_a_freeze_that_comes_meanwhile() -> None:
    kubectl = MemoryKubectl()
    api, clock = api_of(kubectl)
    held = take(api, clock)
    clock.now += 100

    def meanwhile(call: str) -> None:
        if call.startswith("replace"):
            kubectl.before = lambda call: None
            annotate(kubectl, provision_freeze="now")

    kubectl.before = meanwhile
    held.check()
    with pytest.raises(Frozen):
        held.check()


def test_an_abort_reaches_the_run_it_is_for_and_no_later_one() -> None:
    api, clock = api_of(MemoryKubectl())
    assert lease.request_abort(api) == ""
    held = take(api, clock)
    held.check()
    assert not held.abort.is_set()
    assert lease.request_abort(api) == "alice@a"
    held.check()
    assert held.abort.is_set()
    held.release()
    later = take(api, clock, "r2")
    later.check()
    assert not later.abort.is_set()


def test_of_two_at_once_one_gets_it() -> None:
    kubectl = MemoryKubectl()
    api, clock = api_of(kubectl)
    other: list[lease.Held] = []

    def meanwhile(call: str) -> None:
        if call.startswith("create"):
            kubectl.before = lambda call: None
            other.append(take(api, clock, "r2", BOB))

    kubectl.before = meanwhile
    with pytest.raises(LeaseHeld) as caught:
        take(api, clock)
    assert caught.value.who == "bob@b"
    other[0].check()


def test_an_acquisition_whose_answer_was_lost_is_ours() -> None:
    kubectl = MemoryKubectl()
    kubectl.lost = 1
    api, clock = api_of(kubectl)
    take(api, clock).check()


def test_it_is_renewed_while_we_work() -> None:
    api = Api(MemoryKubectl())
    held = lease.acquire(api, "r1", ALICE, duration=1, renew=0.05)
    first = lease.read(api)[0].renewed
    deadline = time.monotonic() + 10
    while lease.read(api)[0].renewed < first + 0.2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert lease.read(api)[0].renewed >= first + 0.2
    held.release()
    assert lease.read(api)[0].who == ""


def test_what_was_taken_over_is_not_given_back() -> None:
    api, clock = api_of(MemoryKubectl())
    dead = take(api, clock)
    clock.now += 1000
    take(api, clock, "r2", BOB)
    dead.release()
    assert lease.read(api)[0].who == "bob@b"


def test_a_process_of_this_machine_that_is_no_more_is_not_waited_for() -> None:
    us = this_process()
    boot, namespace, _, _ = us.place.split("/")
    api, clock = api_of(MemoryKubectl())
    take(api, clock, who=Holder(us.who, f"{boot}/{namespace}/{2**22 + 5}/12345"))
    began = clock()
    take(api, clock, "r2", us)
    assert clock() == began


def test_in_doubt_a_holder_lives() -> None:
    us = this_process()
    boot, namespace, pid, started = us.place.split("/")
    parent = os.getppid()
    assert not us.outlived("")
    assert not us.outlived(us.place)
    assert not us.outlived(f"another-boot/{namespace}/{2**22 + 5}/1")
    assert not us.outlived(f"{boot}/another-namespace/{2**22 + 5}/1")
    assert not Holder("x").outlived(f"{boot}/{namespace}/{2**22 + 5}/1"), "where nothing is known of ourselves"
    assert us.outlived(f"{boot}/{namespace}/{parent}/1"), "its number was given to another process"
    assert (pid, bool(started)) == (str(os.getpid()), True)
