"""Plays kubelet for one node: reports the machine, runs the node's pods and ends them.

Annotations that a test gives a pod:
  test/never-ends    deletion is never confirmed
  test/ends-after    seconds from the deletion to the end (0.2 where absent), at most the grace
  test/not-ready     runs and never becomes Ready
A pod that is to end (restartPolicy Never or OnFailure) and has a command, or an image that computes, is really run on
the machine; what it printed is in its annotation test/log, from where our API server serves it as the pod's log.
"""

from __future__ import annotations

import calendar
import threading
import time
from typing import Any

from tests.cluster.apiserver.pods import ready
from tests.cluster.apiserver.store import timestamp
from tests.cluster.client import ApiError, Client, Object
from tests.cluster.machine import Machine
from tests.cluster.mirror import Mirror, Worker

GPU = "nvidia.com/gpu"
PLUGIN = "nvidia-device-plugin-ds"
"""Label ``name`` of the device plugin's pods. It counts cards once, when it starts, as the real one does."""
COMPUTING = ("cuda-sample", "cuda-check")
"""Images by a part of their name whose own program computes on a card and ends."""
ENDS_AFTER = 0.2


class Kubelet:
    """One node's agent. ``pause`` is the longest time in seconds between two looks at the machine."""

    def __init__(self, name: str, machine: Machine, client: Client, mirror: Mirror, pause: float) -> None:
        self.name = name
        self.machine = machine
        self._client = client
        self._mirror = mirror
        self._pause = pause
        self._looked = 0.0
        self._boot = ""
        self._cards = 0
        self._counted: dict[str, int] = {}
        self._deleted: dict[str, float] = {}
        self._running: set[str] = set()
        self._worker = Worker(mirror, self._sync, pause)

    def start(self) -> None:
        self._worker.start()

    def _sync(self) -> float | None:
        node = self._mirror.get("nodes", self.name)
        if node is None:
            return None
        pods = [pod for pod in self._mirror.items("pods") if pod["spec"].get("nodeName") == self.name]
        if time.monotonic() - self._looked >= self._pause or not self._boot or self._starts_plugin(pods):
            self._look()
        next_end = None
        if self._boot:
            for pod in pods:
                wait = self._pod(pod, node)
                next_end = wait if next_end is None or (wait is not None and wait < next_end) else next_end
        self._report(node, pods)
        return next_end

    def _look(self) -> None:
        """Asks the machine, which may cost a moment. A reboot makes the device plugin count again."""
        boot = self.machine.boot()
        if boot != self._boot:
            self._counted.clear()
        self._cards = self.machine.cards() if boot else 0
        self._boot, self._looked = boot, time.monotonic()

    # --- the node -------------------------------------------------------------------------------------
    def _starts_plugin(self, pods: list[Object]) -> bool:
        return any(_is_plugin(pod) and pod["metadata"]["uid"] not in self._counted for pod in pods)

    def _report(self, node: Object, pods: list[Object]) -> None:
        """Status of the node, where it differs from what is known."""
        status: dict[str, Any] = node.get("status") or {}
        wanted = [
            {
                "type": "Ready",
                "status": "True" if self._boot else "Unknown",
                "reason": "KubeletReady" if self._boot else "NodeStatusUnknown",
            }
        ]
        patch: Object = {}
        conditions = [
            {key: each.get(key) for key in ("type", "status", "reason")} for each in status.get("conditions") or []
        ]
        if conditions != wanted:
            now = timestamp()
            patch["conditions"] = [each | {"lastHeartbeatTime": now, "lastTransitionTime": now} for each in wanted]
        if self._boot:
            count = str(self._allocatable(pods))
            if (status.get("allocatable") or {}).get(GPU, "0") != count:
                patch["allocatable"] = {GPU: count}
                patch["capacity"] = {GPU: count}
            if (status.get("nodeInfo") or {}).get("bootID") != self._boot:
                patch["nodeInfo"] = {"bootID": self._boot}
        if patch:
            self._client.merge("nodes", self.name, {"status": patch}, subresource="status")

    def _allocatable(self, pods: list[Object]) -> int:
        """Cards for pods: what the device plugin counted, or the machine's where the cluster has no plugin."""
        if not any(_is_plugin(each["spec"]["template"]) for each in self._mirror.items("daemonsets")):
            return self._cards
        uids = [pod["metadata"]["uid"] for pod in pods if _is_plugin(pod) and ready(pod) and not _deleting(pod)]
        self._counted = {uid: count for uid, count in self._counted.items() if uid in uids}
        for uid in uids:
            # Without any card the real one does not start, and is started again until there is one.
            self._counted[uid] = self._counted.get(uid) or self._cards
        return max(self._counted.values(), default=0)

    # --- pods -----------------------------------------------------------------------------------------
    def _pod(self, pod: Object, node: Object) -> float | None:
        """Seconds until this pod wants attention; None for not by itself."""
        if _deleting(pod):
            return self._end(pod)
        if pod["status"].get("phase") != "Pending":
            return None
        if not self._fits(pod, node):
            self._set(pod, "Failed", reason="UnexpectedAdmissionError", message=f"Allocate failed: not enough {GPU}")
        elif (command := _command(pod)) is not None:
            self._set(pod, "Running")
            if pod["metadata"]["uid"] not in self._running:
                self._running.add(pod["metadata"]["uid"])
                threading.Thread(target=self._execute, args=(pod, command), daemon=True).start()
        else:
            self._set(pod, "Running")
        return None

    def _fits(self, pod: Object, node: Object) -> bool:
        wanted = requested(pod)
        if not wanted:
            return True
        others = [each for each in self._mirror.items("pods") if each["spec"].get("nodeName") == self.name]
        used = sum(requested(each) for each in others if each["status"].get("phase") == "Running")
        return used + wanted <= int(((node.get("status") or {}).get("allocatable") or {}).get(GPU, 0))

    def _execute(self, pod: Object, command: list[str]) -> None:
        code, output = self.machine.run(command)
        terminated: Object = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        if code != 0 and pod["spec"]["containers"][0].get("terminationMessagePolicy") == "FallbackToLogsOnError":
            terminated["message"] = output[-2000:]
        meta = pod["metadata"]
        for _ in range(20):
            try:
                said = {"metadata": {"uid": meta["uid"], "annotations": {"test/log": output}}}
                self._client.merge("pods", meta["name"], said, meta["namespace"])
                self._set(pod, "Succeeded" if code == 0 else "Failed", terminated=terminated)
                return
            except ApiError as error:
                if error.code == 404:
                    return
            except OSError:
                time.sleep(0.5)  # the API is away

    def _end(self, pod: Object) -> float | None:
        meta = pod["metadata"]
        annotations = meta.get("annotations") or {}
        grace = meta.get("deletionGracePeriodSeconds", 0)
        if "test/never-ends" in annotations or grace == 0:
            return None
        seen = self._deleted.setdefault(meta["uid"], time.monotonic())
        left = min(float(annotations.get("test/ends-after", ENDS_AFTER)), float(grace)) - (time.monotonic() - seen)
        left = min(
            left, calendar.timegm(time.strptime(meta["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ")) - time.time() + 1
        )
        if left > 0:
            return left
        try:
            same = {"uid": meta["uid"]}
            self._client.delete("pods", meta["name"], meta["namespace"], gracePeriodSeconds=0, preconditions=same)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
        return None

    def _set(
        self, pod: Object, phase: str, *, terminated: Object | None = None, reason: str = "", message: str = ""
    ) -> None:
        meta, now = pod["metadata"], timestamp()
        runs = phase == "Running" and "test/not-ready" not in (meta.get("annotations") or {})
        conditions = [
            {"type": kind, "status": "True" if good else "False", "lastTransitionTime": now}
            for kind, good in (
                ("PodScheduled", True),
                ("Initialized", True),
                ("ContainersReady", runs),
                ("Ready", runs),
            )
        ]
        state: Object = {"terminated": terminated} if terminated else {"running": {"startedAt": now}}
        containers = [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": each["image"],
                "ready": runs,
                "restartCount": 0,
                "state": state,
                "containerID": f"containerd://{meta['uid'].replace('-', '')}",
            }
            for each in pod["spec"]["containers"]
        ]
        status: Object = {"phase": phase, "conditions": conditions, "startTime": now, "hostIP": "127.0.0.1"}
        if not reason:
            status["containerStatuses"] = containers
        status |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        self._client.merge("pods", meta["name"], patch, meta["namespace"], "status")


def requested(pod: Object) -> int:
    """Cards that a pod requests."""
    return sum(int((each.get("resources", {}).get("limits") or {}).get(GPU, 0)) for each in pod["spec"]["containers"])


def _deleting(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_plugin(pod: Object) -> bool:
    return bool(((pod.get("metadata") or {}).get("labels") or {}).get("name") == PLUGIN)


def _command(pod: Object) -> list[str] | None:
    """What a pod that is to end really executes on its machine; None for pods that just run."""
    if pod["spec"].get("restartPolicy") == "Always":
        return None
    first = pod["spec"]["containers"][0]
    command = [*(first.get("command") or []), *(first.get("args") or [])]
    return command if command or any(part in first["image"] for part in COMPUTING) else None
