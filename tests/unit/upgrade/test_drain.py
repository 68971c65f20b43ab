"""Pods go by eviction only, what keeps one is named, and nothing happens after the lease is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provisioner.errors import LeaseLost
from provisioner.upgrade.drain import Progress, Waiting, drain, wait_for_jobs
from provisioner.upgrade.pods import CONSENT, GpuUse
from tests.unit.kube.memory import MemoryKubectl, api_of

CARD: dict[str, Any] = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}


def use() -> GpuUse:
    return GpuUse()


def waiting(
    kubectl: MemoryKubectl, timeout: float = 900.0, after: Callable[[float], None] = lambda now: None
) -> tuple[Waiting, list[Progress]]:
    api, _ = api_of(kubectl, after)
    seen: list[Progress] = []
    return Waiting(api, "n1", timeout, lambda: None, seen.append), seen


def changes(kubectl: MemoryKubectl) -> list[str]:
    return [call for call in kubectl.calls if not call.startswith("get")]


def test_gpu_pods_go_and_others_stay() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", **CARD)
    kubectl.pod("b")
    kubectl.pod("c", node="n2")
    kubectl.pod("d", node="n2")
    on, _ = waiting(kubectl)
    outcome = drain(on, "gpu-pods", use)
    assert outcome.ok
    assert outcome.last.evicted == 1
    assert changes(kubectl) == ["create /api/v1/namespaces/default/pods/a/eviction"]


def test_a_holder_without_a_request_goes_too() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a")
    on, _ = waiting(kubectl)
    assert drain(on, "gpu-pods", lambda: GpuUse(holders=frozenset({"uid-a"}))).ok
    assert len(changes(kubectl)) == 1


def test_a_budget_is_named_and_asked_again_until_it_allows() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", metadata={"labels": {"app": "train"}}, **CARD)
    kubectl.kept["a"] = "keep"
    kubectl.put(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep",
        {
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}},
        },
    )

    def relents(now: float) -> None:
        if now > 1_000_060:
            kubectl.kept.clear()

    on, seen = waiting(kubectl, after=relents)
    assert drain(on, "gpu-pods", use).ok
    assert seen[0].blockers[0].budget == "default/keep"
    assert "default/a is kept by disruption budget default/keep (minAvailable 1, allows 0 now)" in seen[0].text
    assert 10 <= len(changes(kubectl)) <= 15, "every five seconds"


def test_a_budget_that_never_allows_ends_the_drain_in_time() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", **CARD)
    kubectl.kept["a"] = "keep"
    on, _ = waiting(kubectl, timeout=60)
    outcome = drain(on, "gpu-pods", use)
    assert outcome.ended == "timeout"
    assert 60 <= outcome.last.seconds < 65
    assert "a" in str(kubectl.objects), "it runs on"


def test_a_pod_that_nobody_makes_anew_is_named_and_waited_for() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", controller="", **CARD)
    on, seen = waiting(kubectl, timeout=30)
    assert drain(on, "full", use).ended == "timeout"
    assert "has no controller" in seen[0].text
    assert changes(kubectl) == []


def test_a_pod_whose_owner_agrees_goes() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", controller="", metadata={"annotations": {CONSENT[0]: "true"}}, **CARD)
    on, _ = waiting(kubectl)
    assert drain(on, "gpu-pods", use).ok


def test_a_finalizer_that_never_ends_is_named() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", metadata={"finalizers": ["example.com/never"]}, **CARD)
    kubectl.stay.add("a")
    on, seen = waiting(kubectl, timeout=30)
    assert drain(on, "gpu-pods", use).ended == "timeout"
    assert "default/a is ending, kept by finalizer example.com/never" in seen[-1].text
    assert len(changes(kubectl)) == 1, "asked once: it is on its way"


def test_a_pod_that_comes_meanwhile_goes_too() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", **CARD)
    kubectl.kept["a"] = "keep"

    def comes(now: float) -> None:
        if now > 1_000_005 and not kubectl.kept.get("seen"):
            kubectl.kept = {"seen": "yes"}
            kubectl.pod("b", **CARD)

    on, _ = waiting(kubectl, after=comes)
    outcome = drain(on, "gpu-pods", use)
    assert outcome.ok
    assert outcome.last.evicted == 2


def test_no_pod_goes_after_the_lease_was_lost() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", **CARD)
    api, _ = api_of(kubectl)

    def lost() -> None:
        raise LeaseLost("taken over")

    with pytest.raises(LeaseLost):
        drain(Waiting(api, "n1", 60, lost), "gpu-pods", use)
    assert changes(kubectl) == []


def test_an_eviction_whose_answer_was_lost_is_asked_again() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", **CARD)
    kubectl.pod("b", **CARD)
    kubectl.lost = 1
    on, _ = waiting(kubectl)
    assert drain(on, "gpu-pods", use).ok


def test_ctrl_c_ends_a_wait_at_once() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", metadata={"labels": {"job": "x"}}, **CARD)
    on, _ = waiting(kubectl)
    on.api.stop.set()
    assert wait_for_jobs(on, "job=x").ended == "stopped"


def test_jobs_are_waited_for_and_not_touched() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a", metadata={"labels": {"job": "x"}})
    kubectl.pod("b")

    def ends(now: float) -> None:
        if now > 1_000_100:
            kubectl.pod("a", metadata={"labels": {"job": "x"}}, status={"phase": "Succeeded"})

    on, seen = waiting(kubectl, timeout=0, after=ends)
    outcome = wait_for_jobs(on, "job=x")
    assert outcome.ok
    assert outcome.last.seconds > 99
    assert "default/a is Running (waited for: job=x)" in seen[0].text
    assert changes(kubectl) == []
