"""Two people, one cluster: who is told what, who may go on, and how everything is stopped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from provisioner.errors import LeaseHeld
from provisioner.model.upgrade import Phase
from provisioner.upgrade.holder import this_process
from tests.roll.scene import OPTIONS, Scene, until

LEASE = "provision-upgrade"


def expire(made: Scene) -> None:
    """The holder hasn't been heard of for longer than clocks differ."""
    made.cluster.client.merge("leases", LEASE, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}, "kube-system")


def test_a_laptop_that_wakes_up_after_a_takeover_changes_nothing(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    target, before = made.target(), made.installations("gpu-k")
    laptop = made.start()
    try:
        until(lambda: made.record("gpu-k").get("phase") == "stopping-clients", "the first roll is at work")
        os.kill(laptop.pid, signal.SIGSTOP)
        with made.open() as second, pytest.raises(LeaseHeld) as held:
            second.resume()
        assert this_process().who in str(held.value), "the second one is told who"
        assert "it has worked since" in str(held.value)

        expire(made)
        with made.open() as second:
            report = second.resume()
        assert report.nodes["gpu-k"].phase is Phase.DONE, (report.nodes, report.refused)
        made.check_clean("gpu-k", target)
        record = made.record("gpu-k")
    finally:
        os.kill(laptop.pid, signal.SIGCONT)
        ended = laptop.wait(120)
    assert ended == 1
    said = (made.site.folder / "stderr").read_text()
    assert "is no longer ours" in said or "refuses this roll" in said, "by a look at the lease, or by the host"
    assert made.record("gpu-k") == record
    assert made.installations("gpu-k") == [*before, target]
    made.check_clean("gpu-k", target)


def test_frozen_rolls_stop_where_they_are_and_go_on_afterwards(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-m")
    target = made.target()
    key = "provision.dev/freeze"

    def freeze() -> None:
        made.kubectl("-n", "kube-system", "annotate", "lease", LEASE, f"{key}=until January")

    report = made.roll(during={("phase-done", "evicting"): freeze})
    assert "frozen" in report.stopped, report
    assert made.record("gpu-m")["phase"] in ("evicting", "stopping-clients")
    with made.open() as looking:
        told = looking.status()
    assert "until January" in told.frozen
    assert told.nodes["gpu-m"].phase.value == made.record("gpu-m")["phase"]
    with made.open() as anew:
        plan = anew.plan()
    assert "--resume" in plan.refused["gpu-m"], "a new roll doesn't begin in the middle of another"
    made.kubectl("-n", "kube-system", "annotate", "lease", LEASE, f"{key}-")
    assert made.resume().nodes["gpu-m"].phase is Phase.DONE
    made.check_clean("gpu-m", target)


def test_an_aborted_roll_finishes_its_node_and_begins_no_other(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k", "gpu-l")
    target = made.target()

    def abort() -> None:
        with made.open() as other:
            assert other.abort() == this_process().who

    options = replace(OPTIONS, canary="gpu-k")
    report = made.roll(options, during={("phase-started", "installing"): abort})
    assert report.nodes["gpu-k"].phase is Phase.DONE
    assert report.nodes["gpu-l"].phase is Phase.PENDING
    assert "--abort" in report.stopped
    made.check_clean("gpu-k", target)
    assert not made.cordoned("gpu-l")
    holder = made.cluster.client.get("leases", LEASE, "kube-system")["spec"].get("holderIdentity")
    assert not holder, "the lease is given back"


def test_ctrl_c_ends_a_wait_and_the_node_can_be_gone_on_with(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    made.cluster.add_replicaset("train", 1, gpus=1)
    made.cluster.add_budget("train", {"app": "train"}, min_available=1)
    target = made.target()
    with made.open(replace(OPTIONS, drain_timeout=300.0)) as roller:
        plan = roller.prepare(roller.plan())

        def interrupt() -> None:
            until(lambda: blocked(made), "it waits")
            roller.stop()

        stopper = threading.Thread(target=interrupt)
        stopper.start()
        report = roller.run(plan)
        stopper.join()
    assert report.interrupted
    assert made.record("gpu-k")["phase"] == "evicting"
    assert made.cordoned("gpu-k")
    made.cluster.client.delete("poddisruptionbudgets", "train", "default")
    assert made.resume().nodes["gpu-k"].phase is Phase.DONE
    made.check_clean("gpu-k", target)


def blocked(made: Scene) -> bool:
    """Was an eviction refused by now?"""
    return any(each.code == 429 for each in made.cluster.requests() if each.resource == "pods/eviction")
