"""Who may do what, through the real kubectl: RBAC, and NodeRestriction for kubelet's credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.client import ApiError
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.cluster.local import LocalCluster

NODE = "system:node:gpu-a"


@pytest.fixture
def own() -> Iterator[LocalCluster]:
    """For what a real API server can't be told while it runs: the one of these tests, always."""
    cluster = LocalCluster.launch()
    yield cluster
    cluster.stop()


def test_a_missing_verb_is_named(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_pod("one", "gpu-a")
    cluster.grant("operator", [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}])
    assert kubectl("get", "nodes", "-o", "name", user="operator").stdout.split() == ["node/gpu-a"]
    said = kubectl.fails("label", "node", "gpu-a", "a=b", user="operator")
    assert 'nodes "gpu-a" is forbidden: User "operator" cannot patch resource "nodes" in API group ""' in said
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one", "namespace": "default"}}
    evict = ("create", "--raw", "/api/v1/namespaces/default/pods/one/eviction", "-f", "-")
    said = kubectl.fails(*evict, stdin=body, user="operator")
    assert 'cannot create resource "pods/eviction" in API group "" in the namespace "default"' in said
    cluster.grant("operator", [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}])
    kubectl(*evict, stdin=body, user="operator")
    assert "Forbidden" in kubectl.fails("get", "nodes", user="operator")


def test_can_i_says_what_a_role_allows(cluster: Cluster, kubectl: Kubectl) -> None:
    rules = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["roll"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    cluster.grant("operator", rules)

    def can(*args: str, user: str = "operator") -> str:
        return kubectl("auth", "can-i", *args, user=user, check=False).stdout.strip()

    assert can("update", "leases/roll", "-n", "kube-system") == "yes"
    assert can("update", "leases/other", "-n", "kube-system") == "no"
    assert can("create", "pods", "--subresource=eviction") == "yes"
    assert can("delete", "pods") == "no"
    assert can("delete", "pods", user="admin") == "yes"


def test_a_node_marks_itself_and_no_other(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_node("gpu-b")
    kubectl("label", "node", "gpu-a", "gpu-unhealthy=true", "nvidia.com/x=y", user=NODE)
    kubectl("annotate", "node", "gpu-a", "provision.dev/gpu-unhealthy-reason=broken", user=NODE)
    kubectl("cordon", "gpu-a", user=NODE)
    assert kubectl.json("get", "node", "gpu-a", user=NODE)["spec"]["unschedulable"] is True
    with pytest.raises(ApiError, match='node "gpu-a" is not allowed to modify node "gpu-b"'):
        cluster.client_of(NODE).merge("nodes", "gpu-b", {"metadata": {"labels": {"gpu-unhealthy": "true"}}})
    assert "only its own Node object" in kubectl.fails("get", "node", "gpu-b", user=NODE)


def test_a_node_may_not_taint_itself_nor_call_itself_a_control_plane(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    assert "is not allowed to modify taints" in kubectl.fails("taint", "node", "gpu-a", "x=y:NoSchedule", user=NODE)
    label = "node-role.kubernetes.io/control-plane"
    said = kubectl.fails("label", "node", "gpu-a", f"{label}=", user=NODE)
    assert f'node "gpu-a" is not allowed to modify labels: {label}' in said
    assert "Forbidden" in kubectl.fails("get", "configmaps", user=NODE)


def test_a_bearer_token_is_somebody_and_no_credential_is_nobody(own: LocalCluster, tmp_path: Path) -> None:
    kubectl = Kubectl(own, tmp_path)
    config = own.token_kubeconfig(tmp_path / "config", "reader")
    own.grant("reader", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
    assert "No resources found" in kubectl(f"--kubeconfig={config}", "get", "nodes").stderr
    config.write_text(config.read_text().replace("token-of-reader", "wrong"))
    assert "Unauthorized" in kubectl.fails(f"--kubeconfig={config}", "get", "--raw", "/api/v1/nodes")


def test_requests_are_known_by_user_and_verb(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("get", "--raw", "/api/v1/nodes")
    kubectl.fails("get", "--raw", "/api/v1/pods", user="stranger")
    assert [each.code for each in cluster.requests(user="stranger", verb="list")] == [403]
    (seen,) = cluster.requests(user="admin", verb="list")
    assert (seen.resource, seen.code, seen.path) == ("nodes", 200, "/api/v1/nodes")


def test_errors_of_the_server_are_told(own: LocalCluster, tmp_path: Path) -> None:
    kubectl = Kubectl(own, tmp_path)
    own.errors("etcd is away")
    assert "etcd is away" in kubectl.fails("get", "--raw", "/api/v1/nodes")
    own.errors("")
    kubectl("get", "--raw", "/api/v1/nodes")
