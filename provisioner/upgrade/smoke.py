"""A small pod that computes on a card of a node which is still cordoned: the cluster gives cards out again.

It is bound to the node by name, tolerates every taint, and asks for one card (or MIG instance): kubelet and the device
plugin must hand one out, the container runtime must give it to the pod, and the program in the image must end well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.errors import Conflict, Interrupted, KubeError, NotFound
from provisioner.kube.api import Api
from provisioner.kube.objects import Node, Pod
from provisioner.upgrade.drain import Blocker, Outcome, Progress, Waiting, until_none
from provisioner.upgrade.pods import SMOKE_LABEL

NAMESPACE = "kube-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TEMPLATE = "upgrade/smoke-pod.json"
IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
"""NVIDIA's sample, which the device plugin's own documentation runs for this purpose."""

Render = Callable[[str, Mapping[str, Any]], str]


@dataclass(frozen=True)
class Smoke:
    """What to run. `command` () is the image's own; `runtime_class` where the nvidia runtime isn't the default."""

    image: str = IMAGE
    command: Sequence[str] = ()
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok`, and what was seen, for people."""

    ok: bool
    text: str


def resource_of(node: Node) -> str:
    """What a pod may ask for to get a card of the node: whole cards first; "" where it offers none."""
    offered = sorted(name for name, count in node.allocatable.items() if count > 0)
    whole = [name for name in offered if name in ("nvidia.com/gpu", "nvidia.com/gpu.shared")]
    return next(iter(whole or [name for name in offered if name.startswith("nvidia.com/mig-")]), "")


def wait_offered(on: Waiting, expected: Mapping[str, int]) -> Outcome:
    """Wait until the node is Ready and has exactly `expected` of each resource allocatable."""

    def look(seconds: float) -> Progress:
        node = on.api.node(on.node)
        wrong = [
            Blocker(f"node {node.name}", f"offers {node.allocatable.get(name, 0)} {name}, expected are {count}")
            for name, count in sorted(expected.items())
            if node.allocatable.get(name, 0) != count
        ]
        if not node.ready:
            wrong.append(Blocker(f"node {node.name}", "isn't Ready"))
        return Progress(len(wrong), tuple(wrong), 0, seconds)

    return until_none(on, look)


def name_of(node: str) -> str:
    """The pod's name: always the same for a node, so that a resumed run finds what a dead one left."""
    return f"provision-smoke-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def manifest(node: Node, smoke: Smoke, render: Render) -> dict[str, Any]:
    """The pod's object; `render` renders a template by name. Raises TemplateError, ValueError when it is no JSON."""
    values = {
        "name": name_of(node.name),
        "namespace": NAMESPACE,
        "node": node.name,
        "label": SMOKE_LABEL,
        "image": smoke.image,
        "command": list(smoke.command),
        "runtime_class": smoke.runtime_class,
        "resource": resource_of(node),
    }
    body: dict[str, Any] = json.loads(render(TEMPLATE, {"pod": values}))
    return body


def compute(
    api: Api, name: str, smoke: Smoke, render: Render, *, guard: Callable[[], None], timeout: float = 120.0
) -> Verdict:
    """Run the pod on node `name` and take it away again. May be called again after a crash.

    Raises what `guard` raises, Interrupted, TemplateError, Forbidden, ApiUnreachable after the API's patience.
    """
    node = api.node(name)
    if not resource_of(node):
        return Verdict(False, f"node {name} offers no card: allocatable has nothing under nvidia.com/")
    body = manifest(node, smoke, render)
    deadline = api.clock() + timeout
    guard()
    _remove(api, name, deadline)
    with contextlib.suppress(Conflict):  # a try without answer had made it
        api.patiently(lambda: api.create(PODS, body))
    try:
        return _watch(api, name, deadline)
    finally:
        _remove(api, name, deadline)


def _watch(api: Api, name: str, deadline: float) -> Verdict:
    while True:
        try:
            pod = api.pod(NAMESPACE, name_of(name))
        except NotFound:
            return Verdict(False, "the pod that was to compute on a card is gone: somebody deleted it")
        if pod.phase in ("Succeeded", "Failed"):
            return _judge(api, pod)
        if api.stop.wait(0.25):
            raise Interrupted(f"pod {pod.full_name} was not waited for")
        if api.clock() >= deadline:
            waits = f": {pod.message}" if pod.message else ""
            return Verdict(False, f"pod {pod.full_name} was {pod.phase or 'not started'} until the end{waits}")


def _judge(api: Api, pod: Pod) -> Verdict:
    """The exit code decides, and the RESULT line of provision's own check, which ends with 0 whatever it finds."""
    said = pod.message
    if "RESULT " not in said:
        with contextlib.suppress(KubeError):  # reading logs is a permission that a roll can do without
            said = f"{said}\n{api.pod_log(pod.namespace, pod.name)}".strip()
    results = [line for line in said.replace(": CARD", "\nCARD").splitlines() if line.startswith("RESULT ")]
    ok = pod.phase == "Succeeded" and all(line.startswith("RESULT pass") for line in results)
    told = results[-1].removeprefix("RESULT ") if results else " ".join(said.split())[-300:]
    return Verdict(ok, f"pod {pod.full_name} {'computed' if ok else 'failed'}{': ' + told if told else ''}")


def _remove(api: Api, name: str, deadline: float) -> None:
    """Only a pod that has our label; waits until it is gone."""
    while True:
        try:
            pod = api.pod(NAMESPACE, name_of(name))
        except NotFound:
            return
        if SMOKE_LABEL not in pod.labels:
            raise KubeError(
                f"{pod.full_name} isn't provision's although it has its name",
                remedy="look what it is, and remove it yourself",
            )
        if not pod.terminating:
            api.delete(f"{PODS}/{pod.name}", gracePeriodSeconds="0")
        if api.clock() >= deadline or api.stop.wait(0.25):
            return
