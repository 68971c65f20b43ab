"""What the API server fills in, and which parts of an object a request can't reach."""

from __future__ import annotations

import copy
from typing import Any

from tests.cluster.apiserver.kinds import Kind, Object
from tests.cluster.apiserver.store import timestamp

_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "name",
)
_LABELS_BY_STATUS = ("Node", "Pod")
"""Kinds whose status subresource lets labels and annotations change too."""


def prepare_new(kind: Kind, item: Object) -> None:
    """Defaults and server-set fields of an object about to be created."""
    meta = item["metadata"]
    for field in (
        "uid",
        "resourceVersion",
        "selfLink",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        meta.pop(field, None)
    meta["creationTimestamp"] = timestamp()
    item["apiVersion"], item["kind"] = kind.api_version, kind.kind
    if kind.generation:
        meta["generation"] = 1
    if "status" in kind.subresources and kind.kind != "Node":
        item.pop("status", None)
    match kind.kind:
        case "Pod":
            _new_pod(item)
        case "Namespace":
            meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta.get("name", "")
            item["spec"], item["status"] = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
        case "PodDisruptionBudget":
            zero = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
            item["status"] = zero
        case "DaemonSet" | "ReplicaSet":
            if kind.kind == "ReplicaSet":
                item.setdefault("spec", {}).setdefault("replicas", 1)
            item["status"] = {}
        case "Node":
            taints = item.setdefault("spec", {}).setdefault("taints", [])
            taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
            item.setdefault("status", {})


def _new_pod(item: Object) -> None:
    spec: Any = item.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            each.get("key") in (None, key) and each.get("effect") in (None, "NoExecute") for each in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    item["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def prepare_update(kind: Kind, subresource: str, old: Object, new: Object) -> Object:
    """The new object with everything restored that this request can't change."""
    result = copy.deepcopy(new)
    meta = result.setdefault("metadata", {})
    result["apiVersion"], result["kind"] = kind.api_version, kind.kind
    if subresource == "status":
        result = copy.deepcopy(old) | {"status": result.get("status") or {}}
        if kind.kind in _LABELS_BY_STATUS:
            for field in ("labels", "annotations", "finalizers"):
                _take(meta, result["metadata"], field)
        meta = result["metadata"]
    elif "status" in kind.subresources:
        _take(old, result, "status")
    for field in _KEPT:
        _take(old["metadata"], meta, field)
    for field in ("resourceVersion", "managedFields"):
        _take(old["metadata"], meta, field)
    for field in ("labels", "annotations", "finalizers"):
        if not meta.get(field):
            meta.pop(field, None)
    if kind.kind == "Node" and not result["spec"].get("unschedulable"):
        result["spec"].pop("unschedulable", None)
    if kind.generation and result.get("spec") != old.get("spec"):
        meta["generation"] = old["metadata"].get("generation", 0) + 1
    return result


def _take(source: Object, target: Object, field: str) -> None:
    if field in source:
        target[field] = copy.deepcopy(source[field])
    else:
        target.pop(field, None)
