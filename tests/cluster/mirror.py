"""A copy of the cluster's objects, kept fresh by watches, that wakes up whoever works on it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable

from tests.cluster.client import ApiError, Client, Object

WATCHED = ("nodes", "pods", "daemonsets", "replicasets", "poddisruptionbudgets")
Wake = Callable[[], None]


class Mirror:
    """All objects of the watched resources by (namespace, name). Survives an API that goes away."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._objects: dict[str, dict[tuple[str, str], Object]] = {resource: {} for resource in WATCHED}
        self._lock = threading.Lock()
        self._wake: list[Wake] = []
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(each,), daemon=True) for each in WATCHED]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self.wake()

    def listen(self, wake: Wake) -> None:
        with self._lock:
            self._wake.append(wake)

    def wake(self) -> None:
        with self._lock:
            listeners = list(self._wake)
        for wake in listeners:
            wake()

    def items(self, resource: str) -> list[Object]:
        with self._lock:
            return list(self._objects[resource].values())

    def get(self, resource: str, name: str, namespace: str = "") -> Object | None:
        with self._lock:
            return self._objects[resource].get((namespace, name))

    def remember(self, resource: str, item: Object, *, new: bool = False) -> None:
        """Takes in what a write answered, so that the next round does not act on what was before. What is not known
        and not new was deleted meanwhile."""
        with self._lock:
            known = self._objects[resource].get(_place(item))
            if known is None:
                if new:
                    self._objects[resource][_place(item)] = item
            elif int(known["metadata"]["resourceVersion"]) < int(item["metadata"]["resourceVersion"]):
                self._objects[resource][_place(item)] = item

    def assume(self, pod: Object, node: str) -> None:
        """A pod was bound: it counts on its node before the watch shows it."""
        with self._lock:
            if self._objects["pods"].get(_place(pod)) is pod:
                self._objects["pods"][_place(pod)] = {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def _follow(self, resource: str) -> None:
        while not self.stopped.is_set():
            try:
                answer = self._client.request("GET", self._client.url(resource))
                with self._lock:
                    self._objects[resource] = {_place(item): item for item in answer["items"]}
                self.wake()
                for event in self._client.watch(resource, answer["metadata"]["resourceVersion"], 600):
                    if event["type"] == "ERROR" or self.stopped.is_set():
                        break
                    with self._lock:
                        known = self._objects[resource]
                        if event["type"] == "DELETED":
                            known.pop(_place(event["object"]), None)
                        else:
                            known[_place(event["object"])] = event["object"]
                    self.wake()
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                time.sleep(0.2)


def _place(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


class Worker:
    """A thread that runs ``work`` after every change and at least every ``pause`` seconds. What the API refuses in
    between (a conflict, an absence) is mended by the next round, as in Kubernetes' own controllers."""

    def __init__(self, mirror: Mirror, work: Callable[[], float | None], pause: float = 5.0) -> None:
        self._mirror = mirror
        self._work = work
        self._pause = pause
        self._fresh = threading.Event()
        mirror.listen(self._fresh.set)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._fresh.set()

    def _run(self) -> None:
        wait = 0.0
        while not self._mirror.stopped.is_set():
            self._fresh.wait(wait)
            time.sleep(0.02)  # several changes at once are one round
            self._fresh.clear()
            try:
                asked = self._work()
                wait = self._pause if asked is None else min(self._pause, max(0.02, asked))
            except (OSError, http.client.HTTPException, ApiError):
                wait = 0.3
