"""Objects through the real kubectl: reading, selecting, writing, patching, conflicts."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def lease(holder: str, **meta: str) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:00.000000Z"}
    named = {"name": "roll", "namespace": "kube-system", **meta}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named, "spec": spec}


def test_lists_are_narrowed_by_labels_and_fields(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a", "id-a", gpus=2, labels={"pool": "x"})
    cluster.add_node("gpu-b", "id-b", gpus=4, labels={"pool": "y"})
    cluster.add_pod("on-a", "gpu-a", labels={"app": "one"})
    cluster.add_pod("on-b", "gpu-b", gpus=1, labels={"app": "two"})
    nodes = kubectl.json("get", "nodes")["items"]
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["2", "4"]
    assert [node["status"]["nodeInfo"]["machineID"] for node in nodes] == ["id-a", "id-b"]
    assert all(node["kind"] == "Node" for node in nodes)

    def names(*args: str) -> list[str]:
        return kubectl("get", *args, "-o", "name").stdout.split()

    assert names("nodes", "-l", "pool in (x, z)") == ["node/gpu-a"]
    assert names("nodes", "-l", "pool!=x") == ["node/gpu-b"]
    assert names("nodes", "-l", "!pool") == []
    assert names("pods", "-A", "--field-selector", "spec.nodeName=gpu-b") == ["pod/on-b"]
    assert names("pods", "--field-selector", "metadata.name!=on-b,status.phase=Running") == ["pod/on-a"]
    assert names("pods", "-n", "kube-system") == []
    refused = kubectl.fails("get", "pods", "--field-selector", "spec.priority=1")
    assert "field label not supported: spec.priority" in refused
    assert "on-a" in kubectl("get", "pods", "-o", "wide").stdout
    assert "on-a" in kubectl("describe", "node", "gpu-a").stdout


def test_absent_and_unknown_things_are_not_found(cluster: Cluster, kubectl: Kubectl) -> None:
    assert 'Error from server (NotFound): nodes "gpu-z" not found' in kubectl.fails("get", "node", "gpu-z")
    assert "doesn't have a resource type" in kubectl.fails("get", "gadgets")
    assert "NotFound" in kubectl.fails("get", "--raw", "/apis/example.org/v1/gadgets")
    assert 'namespaces "no-such" not found' in kubectl.fails("create", "-n", "no-such", "-f", "-", stdin=config("c"))
    assert json.loads(kubectl("get", "--raw", "/api/v1/nodes").stdout)["kind"] == "NodeList"
    assert json.loads(kubectl("get", "--raw", "/version").stdout)["major"] == "1"


def test_create_checks_what_it_is_given(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=config("c", a="1"))
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", stdin=config("c"))
    assert 'unknown field "dat"' in kubectl.fails("create", "-f", "-", stdin=config("d") | {"dat": {}})
    assert "is invalid: metadata.name" in kubectl.fails("create", "-f", "-", stdin=config("Not_a_name"))
    bad = lease("me")
    bad["spec"]["renewTime"] = "2026-01-01T00:00:00Z"
    assert "BadRequest" in kubectl.fails("create", "--raw", LEASE, "-f", "-", stdin=bad)
    kubectl("create", "-f", "-", "--dry-run=server", stdin=config("dry"))
    assert "NotFound" in kubectl.fails("get", "configmap", "dry")


def test_apply_keeps_what_others_set(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=config("c", a="1", b="1"))
    kubectl("patch", "configmap", "c", "--type=merge", "-p", '{"data":{"other":"x"}}')
    kubectl("apply", "-f", "-", stdin=config("c", a="2"))
    assert kubectl.json("get", "configmap", "c")["data"] == {"a": "2", "other": "x"}


def test_server_side_apply_knows_owners(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    kubectl(*server_side, "--field-manager=one", stdin=config("c", a="1", b="1"))
    said = kubectl.fails(*server_side, "--field-manager=two", stdin=config("c", a="2"))
    assert 'conflict with "one": .data.a' in said
    kubectl(*server_side, "--field-manager=two", "--force-conflicts", stdin=config("c", a="2"))
    kubectl(*server_side, "--field-manager=one", stdin=config("c", b="1"))
    assert kubectl.json("get", "configmap", "c")["data"] == {"a": "2", "b": "1"}
    kubectl(*server_side, "--field-manager=one", stdin=config("c"))
    assert kubectl.json("get", "configmap", "c")["data"] == {"a": "2"}


def test_patches_of_all_kinds_change_a_node(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    patch = ("patch", "node", "gpu-a")
    kubectl(*patch, "--type=merge", "-p", '{"metadata":{"annotations":{"example.org/a":"1"}}}')
    kubectl(*patch, "--type=json", "-p", '[{"op":"add","path":"/metadata/annotations/example.org~1b","value":"2"}]')
    kubectl(*patch, "--type=strategic", "-p", '{"metadata":{"annotations":{"example.org/a":null}}}')
    annotations = kubectl.json("get", "node", "gpu-a")["metadata"]["annotations"]
    assert annotations == {"example.org/b": "2"}
    test = '[{"op":"test","path":"/metadata/annotations/example.org~1b","value":"3"}]'
    assert kubectl.fails(*patch, "--type=json", "-p", test)
    kubectl("label", "node", "gpu-a", "gpu-unhealthy=true")
    assert "already has a value" in kubectl.fails("label", "node", "gpu-a", "gpu-unhealthy=false")
    kubectl("label", "node", "gpu-a", "gpu-unhealthy-")
    kubectl("annotate", "node", "gpu-a", "example.org/b-", "example.org/c=3")
    kubectl("taint", "node", "gpu-a", "example.org/t=v:NoSchedule")
    found = kubectl.json("get", "node", "gpu-a")
    assert "gpu-unhealthy" not in found["metadata"]["labels"]
    assert found["metadata"]["annotations"] == {"example.org/c": "3"}
    assert {"key": "example.org/t", "value": "v", "effect": "NoSchedule"} in found["spec"]["taints"]
    wrong = '{"metadata":{"labels":{"x":"not a value"}}}'
    assert 'The Node "gpu-a" is invalid: metadata.labels' in kubectl.fails(*patch, "--type=merge", "-p", wrong)


def test_a_patch_for_an_older_version_conflicts(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    old = kubectl.json("get", "node", "gpu-a")["metadata"]["resourceVersion"]
    kubectl("annotate", "node", "gpu-a", "example.org/a=1")
    stale = json.dumps({"metadata": {"resourceVersion": old, "annotations": {"example.org/a": "2"}}})
    said = kubectl.fails("patch", "node", "gpu-a", "--type=merge", "-p", stale)
    assert "Error from server (Conflict)" in said
    assert "the object has been modified" in said
    assert kubectl.json("get", "node", "gpu-a")["metadata"]["annotations"]["example.org/a"] == "1"


def test_a_lease_is_taken_by_one_only(kubectl: Kubectl) -> None:
    made = json.loads(kubectl("create", "--raw", LEASE, "-f", "-", stdin=lease("first")).stdout)
    assert "AlreadyExists" in kubectl.fails("create", "--raw", LEASE, "-f", "-", stdin=lease("second"))
    replace = ("replace", "--raw", f"{LEASE}/roll", "-f", "-")
    version = made["metadata"]["resourceVersion"]
    kubectl(*replace, stdin=lease("first again", resourceVersion=version))
    assert "Conflict" in kubectl.fails(*replace, stdin=lease("second", resourceVersion=version))
    assert "must be specified for an update" in kubectl.fails(*replace, stdin=lease("second"))
    assert kubectl.json("get", "lease", "roll", "-n", "kube-system")["spec"]["holderIdentity"] == "first again"
    kubectl("delete", "--raw", f"{LEASE}/roll")
    assert "NotFound" in kubectl.fails(*replace, stdin=lease("x", resourceVersion=version))


def test_who_cordoned_is_in_the_managed_fields(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cordon = '{"spec":{"unschedulable":true}}'
    kubectl("patch", "node", "gpu-a", "--type=merge", "-p", cordon, "--field-manager=somebody")
    entries = kubectl.json("get", "node", "gpu-a", "--show-managed-fields")["metadata"]["managedFields"]
    owners = [each["manager"] for each in entries if "f:unschedulable" in each["fieldsV1"].get("f:spec", {})]
    assert owners == ["somebody"]


def test_status_is_changed_through_its_subresource_only(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    patch = (
        "patch",
        "node",
        "gpu-a",
        "--type=merge",
        "-p",
        '{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}',
    )
    kubectl(*patch)
    assert "daemonEndpoints" not in kubectl.json("get", "node", "gpu-a")["status"] or (
        kubectl.json("get", "node", "gpu-a")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 0
    )
    kubectl(*patch, "--subresource=status")
    assert kubectl.json("get", "node", "gpu-a")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 1


def test_events_are_shown_with_their_node(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    about = {"kind": "Node", "name": "gpu-a", "uid": kubectl.json("get", "node", "gpu-a")["metadata"]["uid"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "gpu-a.", "namespace": "default"},
        "involvedObject": about,
        "reason": "DriverUpgrade",
        "message": "it was upgraded",
        "type": "Normal",
        "source": {"component": "provision"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "--raw", "/api/v1/namespaces/default/events", "-f", "-", stdin=event)
    assert "it was upgraded" in kubectl("describe", "node", "gpu-a").stdout
    event["metadata"] = {"generateName": "gpu-a.", "namespace": "kube-public"}
    refused = kubectl.fails("create", "--raw", "/api/v1/namespaces/kube-public/events", "-f", "-", stdin=event)
    assert "does not match event.namespace" in refused


def test_watch_and_wait_see_changes(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    watch = subprocess.Popen(
        kubectl.command("get", "node", "gpu-a", "--watch", "-o", "jsonpath={.metadata.labels.seen}{'\\n'}"),
        stdout=subprocess.PIPE,
        text=True,
    )
    waiting = subprocess.Popen(
        kubectl.command("wait", "node/gpu-a", "--for=jsonpath={.metadata.labels.seen}=yes", "--timeout=20s")
    )
    time.sleep(0.5)
    cluster.client.merge("nodes", "gpu-a", {"metadata": {"labels": {"seen": "yes"}}})
    assert watch.stdout is not None
    assert any(line.strip() == "yes" for line in watch.stdout)
    watch.kill()
    watch.stdout.close()
    watch.wait()
    assert waiting.wait(20) == 0
    kubectl("wait", "node/gpu-a", "--for=condition=Ready", "--timeout=5s")
