"""The admission plug-in NodeRestriction: what kubelet's credentials may change once authorized."""

from __future__ import annotations

from tests.cluster.apiserver.access import User
from tests.cluster.apiserver.kinds import Kind, Object
from tests.cluster.apiserver.problem import forbidden

_KUBELET_LABELS = {
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
}
_KUBELET_PREFIXES = ("kubelet.kubernetes.io/", "node.kubernetes.io/")


def admit(kind: Kind, user: User, verb: str, subresource: str, old: Object | None, new: Object | None) -> None:
    """Raises Problem 403 for a change that a node's credentials don't allow."""
    node = user.node
    if not node:
        return
    item = new or old or {}
    name = item["metadata"].get("name", "")
    why = ""
    if kind.kind == "Node":
        why = _node(node, name, old, new)
    elif kind.kind == "Pod":
        bound = (item.get("spec") or {}).get("nodeName", "")
        if bound != node:
            doing = {"delete": "delete", "create": "create"}.get(verb, "update status for")
            doing = "evict" if subresource == "eviction" else doing
            why = f'node "{node}" can only {doing} pods with spec.nodeName set to itself'
    if why:
        raise forbidden(kind, name, why)


def _node(node: str, name: str, old: Object | None, new: Object | None) -> str:
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if new is None or old is None:
        return ""
    before, after = old["metadata"], new["metadata"]
    if before.get("ownerReferences") != after.get("ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    if (old.get("spec") or {}).get("taints") != (new.get("spec") or {}).get("taints"):
        return f'node "{node}" is not allowed to modify taints'
    labels, changed = after.get("labels") or {}, before.get("labels") or {}
    touched = {key for key in {*labels, *changed} if labels.get(key) != changed.get(key)}
    refused = sorted(key for key in touched if _reserved(key))
    return f'node "{node}" is not allowed to modify labels: {", ".join(refused)}' if refused else ""


def _reserved(label: str) -> bool:
    prefix = label.rpartition("/")[0]
    ours = any(prefix == each or prefix.endswith(f".{each}") for each in ("kubernetes.io", "k8s.io"))
    return ours and label not in _KUBELET_LABELS and not f"{prefix}/".startswith(_KUBELET_PREFIXES)
