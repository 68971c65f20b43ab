"""Which node is this host? Its name and its machine id must both say so, and no other may. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provisioner.kube.objects import Node

_ROLES = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/controlplane",
    "node-role.kubernetes.io/etcd",
)
"""Labels of members of the control plane: kubeadm's, its former one, RKE's, and those with etcd (k3s, RKE2)."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """A host: `host` its name in the inventory, `node` the node's name where the inventory gives one, `hostname` what
    `uname -n` says, `machine_id` the text of /etc/machine-id."""

    host: str
    machine_id: str
    node: str | None = None
    hostname: str = ""


@dataclass(frozen=True)
class Identities:
    """`nodes`: the node of each host that has one beyond doubt; `refused`: why the others have none."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def control_plane(node: Node) -> bool:
    """Whether the node is a member of the control plane or of etcd, by its labels or its taints."""
    return any(role in node.labels or any(taint.get("key") == role for taint in node.taints) for role in _ROLES)


def match(hosts: Iterable[HostIdentity], nodes: Iterable[Node]) -> Identities:
    """The node of each host, or the reason why it can't be told."""
    hosts, nodes = list(hosts), list(nodes)
    by_name = {node.name: node for node in nodes}
    with_id = Counter(node.machine_id.lower() for node in nodes)
    hosts_with_id = Counter(host.machine_id.lower() for host in hosts)
    named: dict[str, Node] = {}
    refused: dict[str, str] = {}
    for host in hosts:
        found = _named(host, by_name)
        reason = _refusal(host, found, nodes, with_id, hosts_with_id)
        if found is not None and not reason:
            named[host.host] = found
        else:
            refused[host.host] = reason
    claimed = Counter(node.name for node in named.values())
    for name, node in list(named.items()):
        if claimed[node.name] > 1:
            others = sorted(other for other, its in named.items() if its.name == node.name and other != name)
            refused[name] = f"node {node.name} would be that of {', '.join(others)} too: name it once in the inventory"
    return Identities({name: node for name, node in named.items() if name not in refused}, refused)


def _candidates(host: HostIdentity) -> list[str]:
    if host.node is not None:
        return [host.node]
    return list(dict.fromkeys(name for name in (host.host, host.hostname, host.hostname.lower()) if name))


def _named(host: HostIdentity, by_name: Mapping[str, Node]) -> Node | None:
    """By name; where the inventory's and the host's own name are nodes both, the machine id decides."""
    found = [by_name[name] for name in _candidates(host) if name in by_name]
    agreeing = [node for node in found if node.machine_id.lower() == host.machine_id.lower()]
    return next(iter(agreeing or found), None)


def _refusal(
    host: HostIdentity, found: Node | None, nodes: list[Node], with_id: Counter[str], hosts_with_id: Counter[str]
) -> str:
    ours = host.machine_id.lower()
    by_id = [node.name for node in nodes if ours and node.machine_id.lower() == ours]
    if found is None:
        looked = " or ".join(_candidates(host))
        hint = f"; its machine id is that of node {', '.join(by_id)}" if by_id else ""
        return f"the cluster has no node {looked}{hint}: set `node` of host {host.host} in the inventory"
    if not ours:
        return f"machine id unknown: /etc/machine-id of {host.host} can't be read, so node {found.name} isn't proven"
    if not found.machine_id:
        return f"machine id unknown: node {found.name} reports none, so it isn't proven to be host {host.host}"
    if found.machine_id.lower() != ours:
        hint = f", and is that of node {', '.join(by_id)}" if by_id else ""
        return (
            f"host {host.host} is not node {found.name}: the host's machine id is {host.machine_id}, "
            f"the node's {found.machine_id}{hint}"
        )
    if with_id[ours] > 1:
        others = ", ".join(sorted(set(by_id) - {found.name}))
        return (
            f"nodes {found.name} and {others} have one machine id {ours}: give each its own (systemd-machine-id-setup)"
        )
    if hosts_with_id[ours] > 1:
        return f"another host of the inventory has the machine id {ours} too: one machine, or a cloned disk"
    return ""
