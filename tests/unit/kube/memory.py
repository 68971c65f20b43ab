"""A kubectl for unit tests that keeps the cluster in memory: only what provisioner.kube asks of it.

The real client against an API server is tests/cluster; here a test also chooses when the API is silent (`silent`) or
an answer is lost (`lost`), which pods a budget keeps (`kept`), and what happens between two calls (`before`).
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from provisioner.errors import ApiUnreachable, KubeError
from provisioner.kube.api import Api
from provisioner.kube.failures import failure
from provisioner.kube.kubectl import Verb

Object = dict[str, Any]


def refuse(reason: str, message: str = "as the test wants it") -> KubeError:
    """What kubectl would say of that status."""
    return failure("a test", f"Error from server ({reason}): {message}")


class MemoryKubectl:
    """See Kubectl. `calls` holds what was asked, as "VERB PATH"."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.calls: list[str] = []
        self.silent = 0
        self.lost = 0
        self.kept: dict[str, str] = {}
        self.stay: set[str] = set()
        self.denied: set[tuple[str, str]] = set()
        self.before: Callable[[str], None] = lambda call: None
        self._version = 100
        self._lock = threading.RLock()

    def put(self, path: str, item: Object, manager: str = "test") -> Object:
        """An object as it is to be there, with a new resource version."""
        with self._lock:
            self._version += 1
            old = self.objects.get(path, {})
            item = copy.deepcopy(item)
            meta = item.setdefault("metadata", {})
            meta["resourceVersion"] = str(self._version)
            meta.setdefault("name", path.rsplit("/", 1)[-1])
            meta["managedFields"] = _fields(old, item, manager)
            self.objects[path] = item
            return item

    def node(self, name: str, **spec: Any) -> None:
        """A node that is Ready."""
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"machineID": f"id-{name}"}}
        self.put(f"/api/v1/nodes/{name}", {"spec": spec, "status": status})

    def pod(self, name: str, *, node: str = "n1", controller: str = "ReplicaSet", **more: Any) -> None:
        """A running pod of the namespace default; `more` is merged into it."""
        item: Object = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
        if controller:
            item["metadata"]["ownerReferences"] = [{"kind": controller, "name": "owner", "controller": True}]
        self.put(f"/api/v1/namespaces/default/pods/{name}", merge(item, more))

    def close(self) -> None:
        """See Kubectl.close."""

    def request(self, verb: Verb, path: str, body: str | None = None, *, timeout: float = 30.0) -> str:
        """See Kubectl.request."""
        url = urlsplit(path)
        call = f"{verb} {url.path}"
        self.before(call)
        with self._lock:
            self.calls.append(call)
            if self.silent:
                self.silent -= 1
                raise ApiUnreachable("no answer")
            query = {key: all_[0] for key, all_ in parse_qs(url.query).items()}
            answer = self._answer(verb, url.path, query, json.loads(body) if body else {})
            if self.lost and verb != "get":
                self.lost -= 1
                raise ApiUnreachable("the answer was lost")
            return json.dumps(answer)

    def _answer(self, verb: str, path: str, query: dict[str, str], body: Object) -> Object:
        if verb == "get":
            return self._get(path, query)
        if path.endswith("selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            resource = "/".join(part for part in (asked["resource"], asked.get("subresource")) if part)
            return {"status": {"allowed": (asked["verb"], resource) not in self.denied}}
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"), body)
        if verb == "create":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise refuse("AlreadyExists")
            return self.put(path, body, query.get("fieldManager", "kubectl"))
        old = self._get(path, {})
        if verb == "delete":
            del self.objects[path]
            return old
        said = body["metadata"].get("resourceVersion")
        if said is not None and said != old["metadata"]["resourceVersion"]:
            raise refuse("Conflict", "the object has been modified")
        return self.put(path, merge(old, body) if verb == "patch" else body, "provision-upgrade")

    def _get(self, path: str, query: dict[str, str]) -> Object:
        if path in self.objects:
            return self.objects[path]
        collection = path.rsplit("/", 1)[-1]
        if collection not in ("nodes", "pods", "poddisruptionbudgets", "daemonsets", "events"):
            raise refuse("NotFound", path)
        found = [item for at, item in self.objects.items() if at.rsplit("/", 2)[1] == collection]
        if "fieldSelector" in query:
            node = query["fieldSelector"].removeprefix("spec.nodeName=")
            found = [item for item in found if item["spec"]["nodeName"] == node]
        if "labelSelector" in query:
            key, value = query["labelSelector"].split("=")
            found = [item for item in found if item["metadata"].get("labels", {}).get(key) == value]
        return {"items": found}

    def _evict(self, path: str, body: Object) -> Object:
        pod = self._get(path, {})
        name = pod["metadata"]["name"]
        if body["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"]:
            raise refuse("Conflict", "the UID in the precondition does not match")
        if name in self.kept:
            raise refuse("TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
        if name in self.stay:
            self.put(path, merge(pod, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        else:
            del self.objects[path]
        return {"status": "Success"}


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    whole = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merge(whole.get(key), value)
    return whole


def _fields(old: Object, new: Object, manager: str) -> list[Object]:
    """Who holds spec.unschedulable and each annotation: whoever changed it last."""
    paths = [("spec", "unschedulable")] + [("metadata", "annotations", key) for key in _notes(new)]
    held = {}
    for entry in old.get("metadata", {}).get("managedFields") or ():
        held[_only(entry["fieldsV1"])] = entry["manager"]
    entries = []
    for path in paths:
        if _at(new, path) is None:
            continue
        same = _at(old, path) == _at(new, path) and path in held
        tree: Object = {}
        for key in reversed(path):
            tree = {f"f:{key}": tree}
        entries.append({"manager": held[path] if same else manager, "fieldsV1": tree})
    return entries


def _notes(item: Object) -> Object:
    found: Object = item.get("metadata", {}).get("annotations") or {}
    return found


def _only(tree: Object) -> tuple[str, ...]:
    for key, below in tree.items():
        return (key.removeprefix("f:"), *_only(below))
    return ()


def _at(item: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        item = (item or {}).get(key)
    return item


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Stop(threading.Event):
    """An event whose waits take no time and move the clock."""

    def __init__(self, clock: Clock, after: Callable[[float], None] = lambda now: None) -> None:
        super().__init__()
        self.clock, self.after = clock, after

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.clock.now += timeout or 0.0
            self.after(self.clock.now)
        return self.is_set()


def api_of(kubectl: MemoryKubectl, after: Callable[[float], None] = lambda now: None) -> tuple[Api, Clock]:
    """An Api whose waits take no time; `after` is called with the time after each of them."""
    clock = Clock()
    return Api(kubectl, stop=Stop(clock, after), clock=clock), clock
