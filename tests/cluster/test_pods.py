"""Pods through the real kubectl: drain, budgets, graceful ends, finalizers, and the controllers behind them."""

from __future__ import annotations

import gc
import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import pytest

from tests.cluster.client import ApiError
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.cluster.machine import Described


def eviction(name: str, **options: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}


def evict(name: str) -> tuple[str, ...]:
    return ("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/eviction", "-f", "-")


def gone(cluster: Cluster, name: str) -> bool:
    return all(pod["metadata"]["name"] != name for pod in cluster.pods("default"))


def test_drain_waits_for_a_budget(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a", gpus=2)
    cluster.add_node("gpu-b", gpus=2)
    cluster.add_daemonset("agent")
    cluster.client.merge("nodes", "gpu-b", {"spec": {"unschedulable": True}})
    cluster.add_replicaset("work", 2, gpus=1, grace=1)
    cluster.add_budget("keep", {"app": "work"}, min_available=2)
    drain = ("drain", "gpu-a", "--ignore-daemonsets")
    draining = subprocess.Popen(kubectl.command(*drain, "--timeout=30s"), stderr=subprocess.PIPE, text=True)
    cluster.wait(lambda: any(each.code == 429 for each in cluster.requests(user="admin")), "the budget says no")
    assert kubectl.json("get", "node", "gpu-a")["spec"]["unschedulable"] is True
    kubectl("uncordon", "gpu-b")
    cluster.client.merge("poddisruptionbudgets", "keep", {"spec": {"minAvailable": 0}}, "default")
    _, said = draining.communicate(timeout=40)
    assert draining.returncode == 0, said
    assert "would violate the pod's disruption budget" in said
    cluster.wait(lambda: len(cluster.pods("default", "gpu-b")) == 2, "both pods are on the other node")
    assert [pod["metadata"]["labels"]["name"] for pod in cluster.pods(node="gpu-a")] == ["agent"]
    kubectl("uncordon", "gpu-a")
    assert "unschedulable" not in kubectl.json("get", "node", "gpu-a")["spec"]
    deleted = [each for each in cluster.requests(user="admin", verb="delete") if each.resource.startswith("pods")]
    assert deleted == []


def test_an_eviction_that_a_budget_forbids_says_which(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_pod("one", "gpu-a", labels={"app": "x"})
    cluster.add_budget("never", {"app": "x"}, min_available=1)
    assert "Error from server (TooManyRequests)" in kubectl.fails(*evict("one"), stdin=eviction("one"))
    assert not gone(cluster, "one")
    with pytest.raises(ApiError) as refused:
        cluster.client.request("POST", "/api/v1/namespaces/default/pods/one/eviction", eviction("one"))
    status = refused.value.status
    assert status["code"] == 429
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget never needs 1 healthy pods and has 1 currently",
    }
    assert status["details"]["causes"] == [cause]
    cluster.add_budget("second", {"app": "x"}, min_available=0)
    assert "more than one PodDisruptionBudget" in kubectl.fails(*evict("one"), stdin=eviction("one"))
    kubectl("delete", "pdb", "never")
    kubectl(*evict("one"), stdin=eviction("one"))
    cluster.wait(lambda: gone(cluster, "one"), "the pod is gone")
    assert "NotFound" in kubectl.fails(*evict("one"), stdin=eviction("one"))


def test_a_pod_with_a_finalizer_stays_until_it_is_taken_off(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_pod("held", "gpu-a", finalizers=["example.org/hold"], grace=1)
    kubectl("delete", "pod", "held", "--wait=false")
    cluster.wait(
        lambda: cluster.pod("held")["metadata"].get("deletionGracePeriodSeconds") == 0, "kubelet says that it ended"
    )
    assert "deletionTimestamp" in kubectl.json("get", "pod", "held")["metadata"]
    kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.wait(lambda: gone(cluster, "held"), "the pod is gone")


def test_a_pod_that_never_ends_has_to_be_waited_for(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_pod("stuck", "gpu-a", annotations={"test/never-ends": ""}, grace=1)
    assert "timed out" in kubectl.fails("delete", "pod", "stuck", "--timeout=2s")
    found = kubectl.json("get", "pod", "stuck")
    assert found["status"]["phase"] == "Running"
    assert found["metadata"]["deletionGracePeriodSeconds"] == 1


def test_a_wrong_precondition_deletes_nothing(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_pod("one", "gpu-a")
    body = eviction("one", preconditions={"uid": "another"})
    assert "Conflict" in kubectl.fails(*evict("one"), stdin=body)
    assert "deletionTimestamp" not in kubectl.json("get", "pod", "one")["metadata"]


def test_a_scheduled_pod_avoids_cordons_and_taints_and_needs_cards(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("control", gpus=0, control_plane=True)
    cluster.add_node("gpu-a", gpus=1)
    kubectl("cordon", "gpu-a")
    cluster.add_pod("waits", gpus=1, phase="")
    tolerates = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    cluster.add_pod("comes", gpus=1, spec=tolerates)
    assert cluster.pod("comes")["spec"]["nodeName"] == "gpu-a"
    condition = kubectl.json("get", "pod", "waits")["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    kubectl("uncordon", "gpu-a")
    cluster.add_pod("too-many", "gpu-a", gpus=1, phase="Failed")
    assert kubectl.json("get", "pod", "too-many")["status"]["reason"] == "UnexpectedAdmissionError"
    kubectl("delete", "pod", "comes")
    kubectl("wait", "pod/waits", "--for=condition=Ready", "--timeout=10s")


def test_pods_made_together_share_the_cards(cluster: Cluster) -> None:
    for name in ("gpu-a", "gpu-b", "gpu-c"):
        cluster.add_node(name, gpus=2)
    cluster.add_replicaset("work", 6, gpus=1)
    assert [len(cluster.pods("default", name)) for name in ("gpu-a", "gpu-b", "gpu-c")] == [2, 2, 2]


def test_a_daemonset_makes_its_pod_again_unless_a_taint_or_label_keeps_it_away(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    cluster.add_node("gpu-a", labels={"deploy": "true"})
    cluster.add_daemonset("agent", selector={"deploy": "true"})

    def agents() -> list[str]:
        return [pod["metadata"]["uid"] for pod in cluster.pods("kube-system")]

    (first,) = agents()
    kubectl("cordon", "gpu-a")
    kubectl("delete", "pods", "-n", "kube-system", "-l", "name=agent")
    cluster.wait(lambda: len(agents()) == 1 and agents() != [first], "it is there again in spite of the cordon")
    kubectl("taint", "node", "gpu-a", "example.org/t:NoSchedule")
    (second,) = agents()
    kubectl("delete", "pods", "-n", "kube-system", "-l", "name=agent")
    assert agents() == []
    kubectl("taint", "node", "gpu-a", "example.org/t-")
    cluster.wait(lambda: len(agents()) == 1 and agents() != [second], "it is there again without the taint")
    kubectl("label", "node", "gpu-a", "deploy=paused", "--overwrite")
    cluster.wait(lambda: agents() == [], "it went with the label")
    assert kubectl.json("get", "ds", "-n", "kube-system", "agent")["spec"]["template"]["spec"]["nodeSelector"]


def test_the_device_plugin_counts_cards_when_it_starts(cluster: Cluster, kubectl: Kubectl) -> None:
    machine = cluster.add_node("gpu-a", gpus=2)
    assert isinstance(machine, Described)
    cluster.add_device_plugin()

    def cards() -> str:
        return str(kubectl.json("get", "node", "gpu-a")["status"]["allocatable"]["nvidia.com/gpu"])

    assert cards() == "2"
    kubectl("taint", "node", "gpu-a", "example.org/t:NoSchedule")
    kubectl("delete", "pods", "-n", "kube-system", "-l", "name=nvidia-device-plugin-ds")
    cluster.wait(lambda: cards() == "0", "no plugin, no cards")
    machine.count = 1
    kubectl("taint", "node", "gpu-a", "example.org/t-")
    cluster.wait(lambda: cards() == "1", "the new pod counted")


def test_a_machine_that_is_down_makes_its_node_not_ready(cluster: Cluster, kubectl: Kubectl) -> None:
    machine = cluster.add_node("gpu-a", pause=0.1)
    assert isinstance(machine, Described)
    machine.booted = ""
    kubectl("wait", "node/gpu-a", "--for=condition=Ready=Unknown", "--timeout=10s")
    machine.booted = "boot-2"
    kubectl("wait", "node/gpu-a", "--for=condition=Ready", "--timeout=10s")
    assert kubectl.json("get", "node", "gpu-a")["status"]["nodeInfo"]["bootID"] == "boot-2"


def test_a_pod_with_a_command_is_run_on_the_machine(cluster: Cluster, kubectl: Kubectl) -> None:
    answers = {"true": (0, "RESULT pass"), "false": (3, "RESULT fail")}
    machine = Described("id", 1, runs=lambda command: answers[command[0]])
    cluster.add_node("gpu-a", machine=machine)
    for command, phase, code in (("true", "Succeeded", 0), ("false", "Failed", 3)):
        container = {
            "name": "c",
            "image": "x",
            "command": [command],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        cluster.add_pod(command, "gpu-a", restart="Never", spec={"containers": [container]}, phase=phase)
        status = kubectl.json("get", "pod", command)["status"]
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert status["containerStatuses"][0]["state"]["terminated"]["message"] == "RESULT fail"


def test_a_job_pod_ends_when_told(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    cluster.add_pod("train-1", "gpu-a", owner=owner, labels={"job": "train"}, restart="Never")
    waiting = subprocess.Popen(
        kubectl.command("wait", "pod/train-1", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=20s")
    )
    cluster.finish("train-1")
    assert waiting.wait(20) == 0


def test_an_api_that_was_away_comes_back_with_everything(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a", gpus=1)
    with cluster.fail():
        assert "refused" in kubectl.fails("get", "nodes", "--request-timeout=3s")
    assert kubectl("get", "nodes", "-o", "name").stdout.split() == ["node/gpu-a"]
    cluster.add_pod("after", gpus=1)
    assert (
        json.loads(kubectl("get", "--raw", "/api/v1/namespaces/default/pods/after").stdout)["spec"]["nodeName"]
        == "gpu-a"
    )


def test_clients_see_an_api_that_comes_and_goes_and_nothing_is_left_open(cluster: Cluster) -> None:
    """Connections cut before, in and after their handshake; a socket that nobody closed is a warning, an error here."""
    cluster.add_node("gpu-a")
    over = threading.Event()
    answered = [0, 0, 0, 0]

    def ask(which: int) -> None:
        while not over.is_set():
            with suppress(OSError, HTTPException, ApiError):
                answered[which] += len(cluster.client.list("nodes"))

    with ThreadPoolExecutor(len(answered)) as pool:
        asking = [pool.submit(ask, which) for which in range(len(answered))]
        for _ in range(40):
            with cluster.fail():
                time.sleep(0.02)
            time.sleep(0.05)
        over.set()
        for each in asking:
            each.result()
    gc.collect()
    assert all(answered)
