"""A host is cordoned under no other node's name."""

from __future__ import annotations

import pytest

from provisioner.kube.objects import Node
from provisioner.upgrade.identity import HostIdentity, control_plane, match

NODES = [Node("n1", machine_id="aa"), Node("n2", machine_id="bb"), Node("N3.example", machine_id="cc")]


@pytest.mark.parametrize(
    ("host", "node"),
    [
        (HostIdentity("n1", "aa"), "n1"),
        (HostIdentity("gpu-1", "AA", hostname="n1"), "n1"),
        (HostIdentity("gpu-1", "aa", hostname="N1"), "n1"),
        (HostIdentity("gpu-3", "cc", node="N3.example", hostname="other"), "N3.example"),
        (HostIdentity("n2", "aa", hostname="n1"), "n1"),
    ],
    ids=["name", "uname", "lower-case", "inventory", "machine-id-decides"],
)
def test_a_host_that_is_its_node(host: HostIdentity, node: str) -> None:
    found = match([host], NODES)
    assert found.nodes[host.host].name == node
    assert not found.refused


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (HostIdentity("gpu-9", "zz", hostname="x"), "the cluster has no node gpu-9 or x"),
        (HostIdentity("gpu-9", "bb"), "its machine id is that of node n2"),
        (HostIdentity("n1", "bb"), "host n1 is not node n1"),
        (HostIdentity("n1", "bb"), "is that of node n2"),
        (HostIdentity("n1", ""), "can't be read"),
        (HostIdentity("gpu-1", "aa", node="n9"), "the cluster has no node n9"),
    ],
)
def test_a_host_that_is_not_its_node_is_told_why(host: HostIdentity, said: str) -> None:
    found = match([host], NODES)
    assert not found.nodes
    assert said in found.refused[host.host]


def test_a_node_that_does_not_tell_its_machine_id_is_not_taken() -> None:
    assert "reports none" in match([HostIdentity("n1", "aa")], [Node("n1")]).refused["n1"]


def test_cloned_nodes_and_cloned_hosts_are_refused_and_others_are_not() -> None:
    nodes = [Node("n1", machine_id="aa"), Node("n2", machine_id="aa"), Node("n3", machine_id="cc")]
    found = match([HostIdentity("n1", "aa"), HostIdentity("n3", "cc")], nodes)
    assert list(found.nodes) == ["n3"]
    assert "nodes n1 and n2 have one machine id" in found.refused["n1"]
    found = match([HostIdentity("n1", "aa"), HostIdentity("h2", "aa", node="n2"), HostIdentity("n2", "bb")], NODES)
    assert set(found.refused) == {"n1", "h2"}
    assert found.nodes["n2"].name == "n2"


def test_members_of_the_control_plane() -> None:
    assert control_plane(Node("a", labels={"node-role.kubernetes.io/control-plane": ""}))
    assert control_plane(Node("a", labels={"node-role.kubernetes.io/etcd": "true"}))
    assert control_plane(Node("a", taints=({"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"},)))
    assert not control_plane(Node("a", labels={"node-role.kubernetes.io/worker": ""}))
