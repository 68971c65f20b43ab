"""The API layer: patient reads, node changes that survive conflicts and lost answers, precise evictions."""

from __future__ import annotations

import pytest

from provisioner.errors import ApiUnreachable, EvictionBlocked, KubeError, NotFound
from provisioner.kube import objects
from provisioner.kube.api import merged
from tests.unit.kube.memory import MemoryKubectl, api_of

LABELLED = {"metadata": {"labels": {"seen": "yes"}}}


def label(node: objects.Node) -> dict[str, object] | None:
    return None if node.labels.get("seen") == "yes" else dict(LABELLED)


def test_a_read_outlasts_an_api_that_is_away_for_a_minute() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    kubectl.silent = 15
    api, clock = api_of(kubectl)
    began = clock()
    assert api.node("n1").ready
    assert 60 < clock() - began < 75


def test_patience_has_an_end() -> None:
    kubectl = MemoryKubectl()
    kubectl.silent = 1000
    api, clock = api_of(kubectl)
    began = clock()
    with pytest.raises(ApiUnreachable):
        api.node("n1")
    assert clock() - began <= api.patience


def test_ctrl_c_ends_the_wait_for_the_api() -> None:
    kubectl = MemoryKubectl()
    kubectl.silent = 1000
    api, _ = api_of(kubectl)
    api.stop.set()
    with pytest.raises(ApiUnreachable):
        api.node("n1")
    assert len(kubectl.calls) == 1


def test_a_node_that_changes_meanwhile_is_read_again() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    once = iter([True])

    def meanwhile(call: str) -> None:
        if call.startswith("patch") and next(once, False):
            node = kubectl.objects["/api/v1/nodes/n1"]
            kubectl.put("/api/v1/nodes/n1", node | {"spec": {"unschedulable": True}})

    kubectl.before = meanwhile
    api, _ = api_of(kubectl)
    node = api.change_node("n1", label)
    assert node.labels["seen"] == "yes"
    assert node.unschedulable, "what the other one wrote is kept"


def test_a_write_whose_answer_was_lost_is_looked_at_and_not_repeated() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    kubectl.lost = 1
    api, _ = api_of(kubectl)
    assert api.change_node("n1", label).labels["seen"] == "yes"
    assert sum(call.startswith("patch") for call in kubectl.calls) == 1


def test_a_node_that_always_changes_is_given_up() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")

    def meanwhile(call: str) -> None:
        if call.startswith("patch"):
            kubectl.put("/api/v1/nodes/n1", kubectl.objects["/api/v1/nodes/n1"])

    kubectl.before = meanwhile
    with pytest.raises(KubeError, match="changed each of"):
        api_of(kubectl)[0].change_node("n1", label)


def test_only_the_very_pod_is_evicted() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a")
    api, _ = api_of(kubectl)
    api.evict(objects.Pod("default", "a", uid="uid-of-an-earlier-a"))
    assert len(api.pods(node="n1")) == 1
    api.evict(api.pods(node="n1")[0])
    assert api.pods(node="n1") == []
    api.evict(objects.Pod("default", "a", uid="uid-a"))  # gone already is well


def test_an_eviction_that_a_budget_refuses_says_so() -> None:
    kubectl = MemoryKubectl()
    kubectl.pod("a")
    kubectl.kept["a"] = "web"
    api, _ = api_of(kubectl)
    with pytest.raises(EvictionBlocked):
        api.evict(api.pods()[0])


def test_a_cluster_without_resource_claims_has_none() -> None:
    assert api_of(MemoryKubectl())[0].claims() == []


def test_an_event_that_cannot_be_noted_stops_nothing() -> None:
    kubectl = MemoryKubectl()
    kubectl.silent = 1
    api_of(kubectl)[0].event(objects.Node("n1"), "Upgrading", "text")


def test_an_event_is_found_by_kubectl_describe_node() -> None:
    kubectl = MemoryKubectl()
    api, _ = api_of(kubectl)
    api.event(objects.Node("n1"), "Upgrading", "cordoned", warning=True)
    event = next(iter(kubectl.objects.values()))
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Upgrading", "cordoned")


def test_deleting_what_is_gone_is_well() -> None:
    api, _ = api_of(MemoryKubectl())
    api.delete("/api/v1/namespaces/default/pods/x")
    with pytest.raises(NotFound):
        api.pod("default", "x")


def test_patches_merge_deeply() -> None:
    one = {"metadata": {"labels": {"a": "1"}}, "spec": {"unschedulable": True}}
    two = {"metadata": {"labels": {"a": None, "b": "2"}}}
    assert merged(one, two) == {"metadata": {"labels": {"a": None, "b": "2"}}, "spec": {"unschedulable": True}}
    assert one["metadata"] == {"labels": {"a": "1"}}, "the parts stay as they were"


def test_a_node_that_we_know_is_patched_without_another_look() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    api.node("n1")
    api.change_node("n1", label)
    api.change_node(
        "n1", lambda node: {"metadata": {"labels": {"again": "yes"}}} if "again" not in node.labels else None
    )
    assert [call.split()[0] for call in kubectl.calls] == ["get", "patch", "patch"]


def test_what_we_know_is_not_believed_when_nothing_is_to_be_done() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    api.change_node("n1", label)
    kubectl.node("n1")  # somebody took the label away
    assert api.change_node("n1", label).labels["seen"] == "yes"
    assert kubectl.objects["/api/v1/nodes/n1"]["metadata"]["labels"] == {"seen": "yes"}
