"""Readers of objects: what is missing reads as nothing, and what counts is found wherever the API writes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provisioner.kube import objects


def test_an_empty_object_reads_as_nothing() -> None:
    assert objects.node({}) == objects.Node("")
    assert objects.pod({}) == objects.Pod("", "")
    assert objects.budget({}) == objects.Budget("", "")
    assert objects.daemon({}) == objects.Daemon("", "")
    assert objects.claim({}) == objects.Claim("", "")


def test_a_node() -> None:
    node = objects.node(
        {
            "metadata": {
                "name": "n1",
                "resourceVersion": "7",
                "managedFields": [
                    {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
                    {"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
                ],
            },
            "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"machineID": "abc", "bootID": "b"},
                "allocatable": {"cpu": "8", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "14"},
            },
        }
    )
    assert node.cordoned_by == "kubectl-cordon"
    assert node.allocatable == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 14}
    assert (node.ready, node.unschedulable, node.machine_id, node.version) == (True, True, "abc", "7")


def test_resources_of_every_kind_of_container_count() -> None:
    pod = objects.pod(
        {
            "spec": {
                "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}],
                "containers": [{"resources": {"requests": {"nvidia.com/mig-1g.5gb": 1, "cpu": "1", "a/b": "0"}}}, {}],
            }
        }
    )
    assert pod.resources == {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}


def test_claims_by_name_and_by_template() -> None:
    pod = objects.pod(
        {
            "spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "mine"}, {"name": "b"}, {"name": "c"}]},
            "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made-b"}]},
        }
    )
    assert pod.claims == ("mine", "made-b")


def test_a_pod_kept_by_a_finalizer_runs_no_more_once_its_containers_ended() -> None:
    ended = {"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
    busy: dict[str, object] = {"containerStatuses": [{"state": {"running": {}}}]}
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/never"]}
    assert not objects.pod({"metadata": going, "status": {"phase": "Running", **ended}}).running
    assert objects.pod({"metadata": going, "status": {"phase": "Running", **busy}}).running
    assert objects.pod({"metadata": going, "status": {"phase": "Running"}}).running, "unknown is not ended"
    assert not objects.pod({"status": {"phase": "Succeeded"}}).running


def test_selectors() -> None:
    labels = {"app": "web", "tier": "front"}
    assert objects.selects({}, labels)
    assert not objects.selects(None, labels)
    assert objects.selects({"matchLabels": {"app": "web"}}, labels)
    assert not objects.selects({"matchLabels": {"app": "db"}}, labels)
    for operator, values, fits in (
        ("In", ["web", "db"], True),
        ("NotIn", ["web"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Later", [], False),
    ):
        rule = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
        assert objects.selects(rule, labels) is fits, operator


def test_tolerations() -> None:
    everything = [{"operator": "Exists"}]
    gpu = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert objects.tolerates(everything, "x", "NoSchedule")
    assert not objects.tolerates(gpu, "x", "NoSchedule")
    assert objects.tolerates(gpu, "nvidia.com/gpu", "NoSchedule")
    assert not objects.tolerates(gpu, "nvidia.com/gpu", "NoExecute")


def test_quantities_that_count_things() -> None:
    assert [objects.quantity(text) for text in ("8", "0", "2k", "", "100m", "x")] == [8, 0, 2000, 0, 0, 0]


@given(st.integers(0, 4_000_000_000))
def test_times_go_to_the_api_and_back(at: int) -> None:
    assert objects.seconds(objects.timestamp(at + 0.25)) == at + 0.25
