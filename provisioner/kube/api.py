"""The calls we make to the cluster: JSON through kubectl, bounded, patient with an API server that is away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote as url_quote
from urllib.parse import urlencode

from provisioner.errors import ApiUnreachable, Conflict, KubeError, NotFound, TooManyRequests
from provisioner.kube import objects
from provisioner.kube.kubectl import Kubectl
from provisioner.kube.objects import Json

FIELD_MANAGER = "provision-upgrade"
"""Who we are in managedFields. The self-test takes managers that begin with "provision" for ours."""

_TRIES = 20
_PAUSES = (0.5, 1.0, 2.0, 4.0, 5.0)
T = TypeVar("T")


class Api:
    """Calls to one cluster; may be used by several threads.

    patience  seconds for which a read is tried again while the API server gives no answer
    stop      once set, waits end at once: a read that got no answer then raises ApiUnreachable
    """

    def __init__(
        self,
        kubectl: Kubectl,
        *,
        patience: float = 180.0,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kubectl = kubectl
        self.patience = patience
        self.stop = stop or threading.Event()
        self.clock = clock
        self._seen: dict[str, objects.Node] = {}

    # Reading

    def get(self, path: str, **query: str) -> Any:
        """The object or list at an API path. Raises NotFound, Forbidden, ApiUnreachable after `patience`, …"""
        where = path + ("?" + urlencode(query) if query else "")
        return self.patiently(lambda: json.loads(self.kubectl.request("get", where)))

    def patiently(self, call: Callable[[], T]) -> T:
        """`call` again while the API gives no answer or asks for time, at most `patience` seconds."""
        deadline = self.clock() + self.patience
        tries = 0
        while True:
            try:
                return call()
            except (ApiUnreachable, TooManyRequests):
                pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
                if self.clock() + pause > deadline or self.stop.wait(pause):
                    raise
                tries += 1

    def _items(self, path: str, **query: str) -> list[Json]:
        return list(self.get(path, **query).get("items") or ())

    def nodes(self) -> list[objects.Node]:
        """All nodes of the cluster."""
        return [objects.node(raw) for raw in self._items("/api/v1/nodes")]

    def node(self, name: str) -> objects.Node:
        """One node, fresh. Raises NotFound."""
        self._seen[name] = found = objects.node(self.get(_path("/api/v1/nodes", name)))
        return found

    def pods(self, node: str = "", selector: str = "") -> list[objects.Pod]:
        """Pods of all namespaces: those bound to `node`, and those that match a label `selector`, where given."""
        query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        if selector:
            query["labelSelector"] = selector
        return [objects.pod(raw) for raw in self._items("/api/v1/pods", **query)]

    def pod(self, namespace: str, name: str) -> objects.Pod:
        """One pod, fresh. Raises NotFound."""
        return objects.pod(self.get(_path(f"/api/v1/namespaces/{namespace}/pods", name)))

    def pod_log(self, namespace: str, name: str, lines: int = 40) -> str:
        """The last lines that a pod printed."""
        path = _path(f"/api/v1/namespaces/{namespace}/pods", name) + f"/log?tailLines={lines}"
        return self.patiently(lambda: self.kubectl.request("get", path))

    def budgets(self) -> list[objects.Budget]:
        """PodDisruptionBudgets of all namespaces."""
        return [objects.budget(raw) for raw in self._items("/apis/policy/v1/poddisruptionbudgets")]

    def daemons(self) -> list[objects.Daemon]:
        """DaemonSets of all namespaces."""
        return [objects.daemon(raw) for raw in self._items("/apis/apps/v1/daemonsets")]

    def claims(self) -> list[objects.Claim]:
        """ResourceClaims of all namespaces; none in a cluster without dynamic resource allocation."""
        for version in ("v1", "v1beta2", "v1beta1"):
            try:
                return [objects.claim(raw) for raw in self._items(f"/apis/resource.k8s.io/{version}/resourceclaims")]
            except NotFound:
                continue
        return []

    def allowed(
        self,
        verb: str,
        resource: str,
        *,
        group: str = "",
        namespace: str = "",
        subresource: str = "",
        name: str = "",
    ) -> bool:
        """Whether we may (SelfSubjectAccessReview, which the API answers to every user)."""
        asked = {"verb": verb, "resource": resource, "group": group}
        asked |= {"namespace": namespace} if namespace else {}
        asked |= {"subresource": subresource} if subresource else {}
        asked |= {"name": name} if name else {}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = self.patiently(lambda: self.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review))
        return bool((answer.get("status") or {}).get("allowed"))

    # Writing: not repeated here when there is no answer, for what happened then is unknown

    def create(self, path: str, body: Json) -> Any:
        """POST. Raises Conflict where the object exists already."""
        said = self.kubectl.request("create", _managed(path), json.dumps(body))
        return json.loads(said or "{}")

    def replace(self, path: str, body: Json) -> Any:
        """PUT. Raises Conflict when `body`'s resourceVersion isn't the newest."""
        return json.loads(self.kubectl.request("replace", _managed(path), json.dumps(body)))

    def delete(self, path: str, **query: str) -> None:
        """DELETE; gone already is well."""
        try:
            self.kubectl.request("delete", path + ("?" + urlencode(query) if query else ""))
        except NotFound:
            return

    def patch_node(self, name: str, patch: Json, version: str) -> objects.Node:
        """A merge patch that holds only for the node as it was at resourceVersion `version`; the node after it.

        Raises Conflict when the node has changed since.
        """
        meta = {**(patch.get("metadata") or {}), "resourceVersion": version}
        path = _managed(_path("/api/v1/nodes", name))
        said = self.kubectl.request("patch", path, json.dumps({**patch, "metadata": meta}))
        self._seen[name] = after = objects.node(json.loads(said))
        return after

    def change_node(self, name: str, decide: Callable[[objects.Node], Json | None]) -> objects.Node:
        """Patch the node with what `decide` says of it (None: it is right already); the node as it is then.

        Decided is first upon the node as we last saw it, for the API refuses a patch of any older one; that it is
        right already is believed only of a fresh look. Again on a conflict, and when an answer was lost: then the
        fresh look tells what the lost write did. An error that `decide` raises ends it.
        """
        deadline = self.clock() + self.patience
        why = "what was written didn't stay"
        found = self._seen.get(name)
        patch = None if found is None else decide(found)
        if found is None or patch is None:
            found = self.node(name)
            patch = decide(found)
        for _ in range(_TRIES):
            if patch is None:
                return found
            try:
                found = self.patch_node(name, patch, found.version)
            except Conflict as late:
                why = late.why
                found = self.node(name)
            except (ApiUnreachable, TooManyRequests):
                if self.clock() > deadline or self.stop.wait(_PAUSES[0]):
                    raise
                found = self.node(name)
            patch = decide(found)
        raise KubeError(
            f"node {name} changed each of {_TRIES} times it was to be patched",
            why=why,
            remedy="see which controller changes the node (managedFields of the node name it)",
        )

    def evict(self, pod: objects.Pod) -> None:
        """Ask for the eviction of exactly this pod (its uid is a precondition); gone already is well.

        Raises EvictionBlocked while a budget allows none, TooManyRequests, ApiUnreachable, Forbidden.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            self.create(_path(f"/api/v1/namespaces/{pod.namespace}/pods", pod.name) + "/eviction", body)
        except (NotFound, Conflict):
            return  # another pod by that name is not the one that was to go

    def event(self, node: objects.Node, reason: str, message: str, *, warning: bool = False) -> None:
        """An event on the node, for `kubectl describe node`. What can't be noted is no failure of a roll."""
        at = time.time()
        stamp = objects.timestamp(at)[:19] + "Z"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{node.name}.{time.time_ns():x}", "namespace": "default"},
            # kubelet names the node itself as the uid of its events, which is what `describe` looks for.
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.name},
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            self.create("/api/v1/namespaces/default/events", body)
        except KubeError:
            return

    def close(self) -> None:
        """End the kubectl that was started for us."""
        self.kubectl.close()


def _path(collection: str, name: str) -> str:
    return f"{collection}/{url_quote(name, safe='')}"


def _managed(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}fieldManager={FIELD_MANAGER}"


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Merge patches as one; the later one wins where both name a value."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged(whole[key], value) if both else value
    return whole
