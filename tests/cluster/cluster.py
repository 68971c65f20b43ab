"""The cluster as tests use it, whichever API server is below."""

from __future__ import annotations

import os
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.apiserver.access import ADMINS, NODES
from tests.cluster.apiserver.pods import ready
from tests.cluster.apiserver.server import Request
from tests.cluster.certificates import Authority, client_context, kubeconfig
from tests.cluster.client import ApiError, Client, Object
from tests.cluster.controllers import Controllers
from tests.cluster.kubelet import GPU, PLUGIN, Kubelet
from tests.cluster.machine import Described, Machine
from tests.cluster.mirror import Mirror

AGENT = "system:test-agent"
"""User of everything that the cluster does by itself; requests of this user are no test's."""

KINDS_OF_TESTS = (
    "daemonsets",
    "replicasets",
    "poddisruptionbudgets",
    "pods",
    "nodes",
    "leases",
    "events",
    "configmaps",
    "resourceclaims",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
)


class ClusterError(Exception):
    """The cluster could not be started or did not reach a state in time."""


class Cluster(ABC):
    """A running cluster. ``ran`` says which API server it is. All preparations go through the API."""

    ran: str

    def __init__(self, authority: Authority, port: int) -> None:
        self.authority = authority
        self.port = port
        self.client = Client(port, self._tls(AGENT, (ADMINS,)), agent="test-agent")
        self._mirror = Mirror(self.client)
        self._kubelets: dict[str, Kubelet] = {}

    @staticmethod
    def start(port: int = 0, *, log: Path | None = None) -> Cluster:
        """Starts a cluster on 127.0.0.1: the real API server where KUBEBUILDER_ASSETS names one, else the one of
        these tests. ``log`` gets every request as a JSON line."""
        assets = os.environ.get("KUBEBUILDER_ASSETS", "")
        if assets:
            from tests.cluster.real import RealCluster

            return RealCluster.launch(Path(assets), port)
        from tests.cluster.local import LocalCluster

        return LocalCluster.launch(port, log)

    def _begin(self) -> None:
        """Starts the agent. The API must answer."""
        self._mirror.start()
        Controllers(self.client, self._mirror).start()

    def stop(self) -> None:
        """Ends agent and API."""
        self._mirror.stop()
        self._end()

    def empty(self) -> None:
        """Removes all that tests made, so that the next one finds a cluster without nodes."""
        self._mirror.stop()
        self._kubelets.clear()
        for resource in KINDS_OF_TESTS:
            for item in self.client.list(resource):
                self._erase(resource, item["metadata"])
        self._mirror = Mirror(self.client)
        self._begin()
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Requests until now are no longer told."""

    def _erase(self, resource: str, meta: Object) -> None:
        """Deletes an object, finalizers or not, unless it is the API server's own."""
        own = meta["name"].startswith(("apiserver-", "extension-apiserver-", "kube-"))
        if own or "kubernetes.io/bootstrapping" in (meta.get("labels") or {}):
            return
        name, namespace = meta["name"], meta.get("namespace", "")
        try:
            if meta.get("finalizers"):
                self.client.merge(resource, name, {"metadata": {"finalizers": None}}, namespace)
            self.client.delete(resource, name, namespace, gracePeriodSeconds=0)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    @abstractmethod
    def _end(self) -> None: ...

    @abstractmethod
    def away(self) -> None:
        """The API server goes away: connections are cut and refused, until ``back``."""

    @abstractmethod
    def back(self) -> None: ...

    @abstractmethod
    def requests(self, user: str = "", verb: str = "") -> list[Request]:
        """What was asked of the API, oldest first; of one user or verb only where named."""

    @contextmanager
    def fail(self) -> Iterator[None]:
        """The API is away inside this block."""
        self.away()
        try:
            yield
        finally:
            self.back()

    def fail_for(self, seconds: float) -> None:
        """The API goes away now and comes back by itself; returns at once."""
        self.away()
        threading.Timer(seconds, self.back).start()

    # --- credentials ----------------------------------------------------------------------------------
    def kubeconfig(self, path: Path, user: str = "admin", groups: Sequence[str] | None = None) -> Path:
        """Writes a kubeconfig (mode 0600) with a client certificate. ``admin`` may do everything, a user
        ``system:node:NAME`` what kubelet may, anybody else what ``grant`` gave."""
        pair = self.authority.user(user, tuple(_groups(user) if groups is None else groups))
        path.touch(mode=0o600)
        path.write_text(kubeconfig(f"https://127.0.0.1:{self.port}", self.authority, pair, user))
        return path

    def client_of(self, user: str, groups: Sequence[str] | None = None) -> Client:
        """Requests as a user, without kubectl. Users as for ``kubeconfig``."""
        return Client(self.port, self._tls(user, tuple(_groups(user) if groups is None else groups)), agent=user)

    def _tls(self, user: str, groups: tuple[str, ...]) -> ssl.SSLContext:
        return client_context(self.authority, self.authority.user(user, groups))

    def grant(self, user: str, rules: Sequence[Object]) -> None:
        """Gives a user a ClusterRole of these rules, under the user's name; replaces what was granted before."""
        name = user.replace(":", "-")
        api = "rbac.authorization.k8s.io"
        role: Object = {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        }
        binding: Object = {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "apiGroup": api, "name": user}],
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        }
        for resource, item in (("clusterroles", role), ("clusterrolebindings", binding)):
            try:
                self.client.create(resource, item)
            except ApiError as error:
                if error.code != 409:
                    raise
                self.client.request("PUT", self.client.url(resource, name=name), item)

    # --- nodes ----------------------------------------------------------------------------------------
    def add_node(
        self,
        name: str,
        machine_id: str = "",
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        machine: Machine | None = None,
        control_plane: bool = False,
        pause: float = 1.0,
    ) -> Machine:
        """Registers a node and waits until it is Ready. ``machine`` is what lies below (``Hosted(lab.host(NAME))``);
        where absent it is described by ``machine_id`` and ``gpus``. Returns the machine."""
        below: Machine = machine or Described(machine_id or f"machine-of-{name}", gpus)
        given = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            **(labels or {}),
        }
        spec: Object = {}
        if control_plane:
            given["node-role.kubernetes.io/control-plane"] = ""
            spec["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
        info = dict.fromkeys(
            ("systemUUID", "kernelVersion", "osImage", "kubeProxyVersion", "operatingSystem", "architecture"), ""
        )
        info |= {"machineID": below.machine_id(), "bootID": "", "kubeletVersion": "v1.36.0"}
        info["containerRuntimeVersion"] = "containerd://2.1.9"
        self.client.create(
            "nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": given},
                "spec": spec,
                "status": {"nodeInfo": info, "addresses": [{"type": "Hostname", "address": name}]},
            },
        )
        kubelet = Kubelet(name, below, self.client, self._mirror, pause)
        self._kubelets[name] = kubelet
        kubelet.start()
        self.wait(lambda: ready(self.node(name)), f"node {name} is Ready")
        return below

    def node(self, name: str) -> Object:
        return self.client.get("nodes", name)

    # --- pods -----------------------------------------------------------------------------------------
    def add_pod(
        self,
        name: str,
        node: str = "",
        *,
        namespace: str = "default",
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        owner: Mapping[str, Any] | None = None,
        grace: int = 2,
        restart: str = "Always",
        spec: Mapping[str, Any] | None = None,
        finalizers: Sequence[str] = (),
        phase: str = "Running",
    ) -> Object:
        """Makes a pod (bound to ``node``, or scheduled) and waits until it is in ``phase``; empty: does not wait.
        ``spec`` is merged over the pod's spec, ``owner`` is its ownerReference."""
        container: Object = {"name": "main", "image": "registry.example/work:1"}
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}}
        full: Object = {"containers": [container], "terminationGracePeriodSeconds": grace, "restartPolicy": restart}
        full |= {"nodeName": node} if node else {}
        meta: Object = {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        }
        if finalizers:
            meta["finalizers"] = list(finalizers)
        if owner:
            meta["ownerReferences"] = [dict(owner)]
        self.ensure_namespace(namespace)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": full | dict(spec or {})}
        made = self.client.create("pods", pod, namespace)
        if phase:
            self.wait(lambda: self.pod(name, namespace)["status"].get("phase") == phase, f"pod {name} is {phase}")
        return made

    def pod(self, name: str, namespace: str = "default") -> Object:
        return self.client.get("pods", name, namespace)

    def pods(self, namespace: str = "", node: str = "") -> list[Object]:
        query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        return self.client.list("pods", namespace, **query)

    def finish(self, name: str, namespace: str = "default", *, succeeded: bool = True) -> None:
        """The pod's work is done: it ends as Succeeded or Failed."""
        status: Object = {"phase": "Succeeded" if succeeded else "Failed"}
        status["conditions"] = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
        self.client.merge("pods", name, {"status": status}, namespace, "status")

    def ensure_namespace(self, name: str) -> None:
        try:
            self.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiError as error:
            if error.code != 409:
                raise

    # --- what keeps pods ------------------------------------------------------------------------------
    def add_budget(
        self,
        name: str,
        selector: Mapping[str, str],
        *,
        namespace: str = "default",
        min_available: int | str | None = None,
        max_unavailable: int | str | None = None,
    ) -> None:
        """Makes a PodDisruptionBudget and waits until it is observed; ``max_unavailable`` is of ReplicaSets."""
        spec: Object = {"selector": {"matchLabels": dict(selector)}}
        spec |= {} if min_available is None else {"minAvailable": min_available}
        spec |= {} if max_unavailable is None else {"maxUnavailable": max_unavailable}
        meta = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
        self.client.create("poddisruptionbudgets", body, namespace)
        self.wait(
            lambda: bool(self.client.get("poddisruptionbudgets", name, namespace)["status"].get("observedGeneration")),
            f"budget {name} is observed",
        )

    def add_replicaset(
        self,
        name: str,
        replicas: int,
        *,
        namespace: str = "default",
        gpus: int = 0,
        grace: int = 2,
        spec: Object | None = None,
        wait: bool = True,
    ) -> None:
        """Makes a ReplicaSet of pods with the label ``app: NAME`` and waits until they are Ready, if told so."""
        container: Object = {"name": "main", "image": "registry.example/work:1"}
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}}
        pod = {"containers": [container], "terminationGracePeriodSeconds": grace, **(spec or {})}
        body = _set("ReplicaSet", name, namespace, {"app": name}, pod)
        body["spec"]["replicas"] = replicas
        self.ensure_namespace(namespace)
        self.client.create("replicasets", body, namespace)
        if wait:
            self.wait(
                lambda: self.client.get("replicasets", name, namespace)["status"].get("readyReplicas") == replicas,
                f"ReplicaSet {name} has {replicas} ready pods",
            )

    def add_daemonset(
        self,
        name: str,
        *,
        namespace: str = "kube-system",
        labels: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
        spec: Object | None = None,
    ) -> None:
        """Makes a DaemonSet on the nodes that ``selector`` names by label, and waits until its pods are Ready."""
        given = dict(labels or {"name": name})
        container = {"name": "main", "image": "registry.example/agent:1"}
        pod: Object = {"containers": [container], "nodeSelector": dict(selector or {}), **(spec or {})}
        self.ensure_namespace(namespace)
        self.client.create("daemonsets", _set("DaemonSet", name, namespace, given, pod), namespace)

        def rolled_out() -> bool:
            status = self.client.get("daemonsets", name, namespace)["status"]
            seen = status.get("observedGeneration", 0) > 0
            return bool(seen and status.get("numberReady") == status.get("desiredNumberScheduled"))

        self.wait(rolled_out, f"DaemonSet {name} is rolled out")

    def add_device_plugin(self) -> None:
        """NVIDIA's device plugin, as its own manifest has it: from now on allocatable cards are what its pod counted
        on a node when it started, and none where it does not run."""
        container = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}
        everywhere: Object = {"containers": [container], "priorityClassName": "system-node-critical"}
        everywhere["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
        self.add_daemonset("nvidia-device-plugin-daemonset", labels={"name": PLUGIN}, spec=everywhere)

    # --- waiting --------------------------------------------------------------------------------------
    def wait(self, true: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
        """Waits until ``true()`` is; raises ClusterError naming ``what`` after ``seconds``."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise ClusterError(f"not so within {seconds:g} s: {what}")
            time.sleep(0.03)


def _groups(user: str) -> tuple[str, ...]:
    if user == "admin":
        return (ADMINS,)
    return (NODES,) if user.startswith("system:node:") else ()


def _set(kind: str, name: str, namespace: str, labels: dict[str, str], pod: Object) -> Object:
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
