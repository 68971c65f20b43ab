"""The pod subresources ``eviction`` and ``binding``."""

from __future__ import annotations

import copy

from tests.cluster.apiserver.kinds import BY_KIND, Object
from tests.cluster.apiserver.noderestriction import admit
from tests.cluster.apiserver.problem import Problem, budget_unobserved, budget_violated, conflict, not_found
from tests.cluster.apiserver.selectors import object_selector_matches
from tests.cluster.apiserver.store import Record, timestamp
from tests.cluster.apiserver.verbs import Call, Verbs

POD = BY_KIND["", "Pod"]
BUDGET = BY_KIND["policy", "PodDisruptionBudget"]
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def ready(item: Object) -> bool:
    """Whether a pod's or a node's condition Ready is true."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def evict(verbs: Verbs, namespace: str, name: str, body: Object, call: Call) -> Object:
    """Deletes a pod if its budget allows that. Raises Problem 429 if not, 500 where two budgets claim it."""
    store = verbs.store
    if body.get("kind") != "Eviction" or body.get("apiVersion") not in ("policy/v1", "policy/v1beta1"):
        raise Problem(400, f"{body.get('kind')} cannot be handled as an Eviction")
    if (body.get("metadata") or {}).get("name", name) != name:
        raise Problem(400, "name in URL does not match name in Eviction object")
    options = body.get("deleteOptions") or {}
    with store.lock:
        record = store.get(POD, namespace, name)
        if record is None:
            raise not_found(POD, name)
        pod = record.item
        admit(POD, call.user, "create", "eviction", pod, None)
        over = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in (
            "Succeeded",
            "Failed",
            "Pending",
        )
        budgets = [] if over else _budgets(verbs, pod)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise Problem(500, text)
        for budget in budgets:
            _spend(verbs, budget, pod, dry=call.dry_run or bool(options.get("dryRun")))
        verbs.delete(POD, namespace, name, options, call)
    return dict(_SUCCESS)


def _budgets(verbs: Verbs, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    found = verbs.store.items(BUDGET, pod["metadata"]["namespace"])
    return [each for each in found if object_selector_matches(each["spec"].get("selector"), labels)]


def _spend(verbs: Verbs, budget: Object, pod: Object, *, dry: bool) -> None:
    meta, status = budget["metadata"], budget["status"]
    if not ready(pod):
        healthy = status["currentHealthy"] >= status["desiredHealthy"] > 0
        if healthy or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
    if status.get("observedGeneration", 0) < meta["generation"]:
        raise budget_unobserved(meta["name"])
    if status["disruptionsAllowed"] <= 0:
        needs = f"needs {status['desiredHealthy']} healthy pods and has {status['currentHealthy']} currently"
        raise budget_violated(f"The disruption budget {meta['name']} {needs}")
    if dry:
        return
    record = verbs.store.get(BUDGET, meta["namespace"], meta["name"])
    if record is not None:
        item = copy.deepcopy(record.item)
        item["status"]["disruptionsAllowed"] -= 1
        item["status"].setdefault("disruptedPods", {})[pod["metadata"]["name"]] = timestamp()
        verbs.store.write(BUDGET, Record(item, record.ownership))


def bind(verbs: Verbs, namespace: str, name: str, body: Object) -> Object:
    """What the scheduler does: gives a pod its node."""
    node = (body.get("target") or {}).get("name", "")
    with verbs.store.lock:
        record = verbs.store.get(POD, namespace, name)
        if record is None:
            raise not_found(POD, name)
        item = copy.deepcopy(record.item)
        bound = item["spec"].get("nodeName")
        if bound:
            raise conflict(POD, name, f'pod {name} is already assigned to node "{bound}"')
        item["spec"]["nodeName"] = node
        conditions = [each for each in item["status"].get("conditions") or [] if each["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp()}
        item["status"]["conditions"] = [*conditions, scheduled]
        verbs.store.write(POD, Record(item, record.ownership))
    return dict(_SUCCESS)
