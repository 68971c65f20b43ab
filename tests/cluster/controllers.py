"""Plays the scheduler and the controllers for DaemonSets, ReplicaSets and PodDisruptionBudgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.cluster.apiserver.pods import ready
from tests.cluster.apiserver.selectors import expression_matches, object_selector_matches
from tests.cluster.client import ApiError, Client, Object
from tests.cluster.kubelet import GPU, requested
from tests.cluster.mirror import Mirror, Worker

_ENDED = ("Succeeded", "Failed")
_CORDONED, _NOT_READY = "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"
_DAEMON_TOLERATIONS = [{"key": key, "operator": "Exists"} for key in (_CORDONED, _NOT_READY)]


class Controllers:
    """All of them in one thread, each looking at everything after each change: the clusters here are small."""

    def __init__(self, client: Client, mirror: Mirror) -> None:
        self._client = client
        self._mirror = mirror
        self._worker = Worker(mirror, self._sync)

    def start(self) -> None:
        self._worker.start()

    def _sync(self) -> float | None:
        for node in self._mirror.items("nodes"):
            self._taint(node)
        for budget in self._mirror.items("poddisruptionbudgets"):
            self._budget(budget)
        for each in self._mirror.items("daemonsets"):
            self._daemonset(each)
        for each in self._mirror.items("replicasets"):
            self._replicaset(each)
        self._schedule()
        return None

    # --- nodes ----------------------------------------------------------------------------------------
    def _taint(self, node: Object) -> None:
        """The taints that say that a node is cordoned or not ready, as the node lifecycle controller sets them."""
        known = list(node["spec"].get("taints") or [])
        wanted = [taint for taint in known if taint["key"] not in (_CORDONED, _NOT_READY)]
        wanted += [
            {"key": key, "effect": "NoSchedule"}
            for key, so in ((_CORDONED, bool(node["spec"].get("unschedulable"))), (_NOT_READY, not ready(node)))
            if so
        ]
        if {(taint["key"], taint["effect"]) for taint in known} != {
            (taint["key"], taint["effect"]) for taint in wanted
        }:
            meta = node["metadata"]
            patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"taints": wanted or None}}
            with suppress(ApiError):  # a conflict: the next round sees it fresh
                self._mirror.remember("nodes", self._client.merge("nodes", meta["name"], patch))

    # --- sets -----------------------------------------------------------------------------------------
    def _owned(self, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [
            pod
            for pod in self._mirror.items("pods")
            if any(each.get("uid") == uid for each in pod["metadata"].get("ownerReferences") or [])
        ]

    def _daemonset(self, owner: Object) -> None:
        template = owner["spec"]["template"]
        probe: Object = {"spec": {**template["spec"], "tolerations": self._tolerations(template)}}
        selected = [node for node in self._mirror.items("nodes") if selects(probe["spec"], node)]
        keeps = {_name(node) for node in selected if not untolerated(probe["spec"], node, ("NoExecute",))}
        nodes = {_name(node) for node in selected if not untolerated(probe["spec"], node)}
        found: dict[str, Object] = {}
        for pod in self._owned(owner):
            name = pod["spec"].get("nodeName", "")
            unwanted = name not in keeps or pod["status"].get("phase") in _ENDED
            if unwanted and "deletionTimestamp" not in pod["metadata"]:
                self._client.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
            found[name] = pod
        for node in sorted(nodes - found.keys()):
            self._create(owner, node, probe["spec"])
        living = [pod for name, pod in found.items() if name in keeps]
        self._count(
            owner,
            len(nodes | {name for name in found if name in keeps}),
            sum(ready(pod) for pod in living),
            len(living),
        )

    def _tolerations(self, template: Object) -> list[Object]:
        return [*(template["spec"].get("tolerations") or []), *_DAEMON_TOLERATIONS]

    def _count(self, owner: Object, desired: int, healthy: int, present: int) -> None:
        status = {
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": present,
            "numberReady": healthy,
            "numberAvailable": healthy,
            "updatedNumberScheduled": present,
            "numberMisscheduled": 0,
            "observedGeneration": owner["metadata"]["generation"],
        }
        self._status("daemonsets", owner, status)

    def _replicaset(self, owner: Object) -> None:
        living = [
            pod
            for pod in self._owned(owner)
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in _ENDED
        ]
        for _ in range(owner["spec"]["replicas"] - len(living)):
            self._create(owner, "", owner["spec"]["template"]["spec"])
        healthy = sum(ready(pod) for pod in living)
        status = {"replicas": len(living), "readyReplicas": healthy, "availableReplicas": healthy}
        self._status("replicasets", owner, status | {"observedGeneration": owner["metadata"]["generation"]})

    def _create(self, owner: Object, node: str, spec: Object) -> None:
        meta, template = owner["metadata"], owner["spec"]["template"]
        reference = {"apiVersion": "apps/v1", "kind": owner.get("kind") or _kind(owner), "name": meta["name"]}
        reference |= {"uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "spec": dict(spec)}
        pod["metadata"] = {
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": dict(template["metadata"].get("labels") or {}),
            "annotations": dict(template["metadata"].get("annotations") or {}),
            "ownerReferences": [reference],
        }
        if node:
            pod["spec"]["nodeName"] = node
        self._mirror.remember("pods", self._client.create("pods", pod, meta["namespace"]), new=True)

    # --- budgets --------------------------------------------------------------------------------------
    def _budget(self, budget: Object) -> None:
        meta, spec, known = budget["metadata"], budget["spec"], budget.get("status") or {}
        pods = [
            pod
            for pod in self._mirror.items("pods")
            if pod["metadata"]["namespace"] == meta["namespace"]
            and object_selector_matches(spec.get("selector"), pod["metadata"].get("labels") or {})
            and pod["status"].get("phase") not in _ENDED
        ]
        names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        disrupted = {name: when for name, when in (known.get("disruptedPods") or {}).items() if name in names}
        healthy = sum(
            ready(pod) and "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        expected, desired = self._demand(spec, pods)
        status: Object = {
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            "observedGeneration": meta["generation"],
        }
        gone = {name: None for name in known.get("disruptedPods") or {} if name not in disrupted}
        if gone:
            status["disruptedPods"] = gone
        self._status("poddisruptionbudgets", budget, status)

    def _demand(self, spec: Object, pods: list[Object]) -> tuple[int, int]:
        """Pods expected and pods that must stay healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and not isinstance(least, str):
            return len(pods), int(least)
        owners = {each["uid"] for pod in pods for each in pod["metadata"].get("ownerReferences") or []}
        expected = sum(
            each["spec"]["replicas"] for each in self._mirror.items("replicasets") if each["metadata"]["uid"] in owners
        )
        if least is not None:
            return expected, _part(least, expected)
        return expected, max(0, expected - _part(most if most is not None else 0, expected))

    def _status(self, resource: str, item: Object, status: Object) -> None:
        known = item.get("status") or {}
        if all(known.get(key) == value for key, value in status.items()):
            return
        meta = item["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        try:
            self._mirror.remember(
                resource, self._client.merge(resource, meta["name"], patch, meta["namespace"], "status")
            )
        except ApiError as error:
            if error.code not in (404, 409):  # the next round sees it fresh
                raise

    # --- scheduler ------------------------------------------------------------------------------------
    def _schedule(self) -> None:
        for pod in self._mirror.items("pods"):
            spec, meta = pod["spec"], pod["metadata"]
            if spec.get("nodeName") or "deletionTimestamp" in meta or pod["status"].get("phase") != "Pending":
                continue
            nodes = [node for node in self._mirror.items("nodes") if self._suits(pod, node)]
            if nodes:
                node = min(nodes, key=lambda each: (self._used(each), each["metadata"]["name"]))["metadata"]["name"]
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
                try:
                    where = self._client.url("pods", meta["namespace"], meta["name"], "binding")
                    self._client.request("POST", where, body)
                    self._mirror.assume(pod, node)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
            elif not (pod["status"].get("conditions") or []):
                text = f"0/{len(self._mirror.items('nodes'))} nodes are available"
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
                self._status("pods", pod, {"conditions": [condition]})

    def _suits(self, pod: Object, node: Object) -> bool:
        if not selects(pod["spec"], node) or untolerated(pod["spec"], node):
            return False
        status: dict[str, Any] = node.get("status") or {}
        free = int((status.get("allocatable") or {}).get(GPU, 0)) - self._used(node)
        return ready(node) and (not requested(pod) or requested(pod) <= free)

    def _used(self, node: Object) -> int:
        name = node["metadata"]["name"]
        pods = [pod for pod in self._mirror.items("pods") if pod["spec"].get("nodeName") == name]
        return sum(requested(pod) for pod in pods if pod["status"].get("phase") not in _ENDED)


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _kind(owner: Object) -> str:
    return "ReplicaSet" if "replicas" in owner["spec"] else "DaemonSet"


def _part(amount: int | str, whole: int) -> int:
    return math.ceil(int(amount[:-1]) * whole / 100) if isinstance(amount, str) else int(amount)


def selects(spec: Object, node: Object) -> bool:
    """Whether nodeSelector and required node affinity let a pod onto a node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    names = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(expression_matches(each, labels) for each in term.get("matchExpressions") or [])
        and all(expression_matches(each, names) for each in term.get("matchFields") or [])
        for term in affinity["nodeSelectorTerms"]
    )


def untolerated(spec: Object, node: Object, effects: Sequence[str] = ("NoSchedule", "NoExecute")) -> bool:
    """Whether a taint of these effects, or a cordon, keeps a pod off a node."""
    taints = list(node.get("spec", {}).get("taints") or [])
    if node.get("spec", {}).get("unschedulable"):
        taints.append({"key": _CORDONED, "effect": "NoSchedule"})
    hard = [taint for taint in taints if taint["effect"] in effects]
    return not all(any(_tolerates(each, taint) for each in spec.get("tolerations") or []) for taint in hard)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return bool(toleration.get("operator") == "Exists")
    if toleration["key"] != taint["key"]:
        return False
    return bool(toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
