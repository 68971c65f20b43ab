"""DaemonSets whose pods hold the cards: device plugin, exporters, MIG manager, plugins of resource allocation.

An evicted DaemonSet pod is made anew at once, for DaemonSets tolerate a cordon. Two things keep it away, and both are
undone afterwards:

- the taint `provision.dev/driver-upgrade:NoSchedule`, which stops no running pod and lets no new one come; then the
  pod is evicted, through the Eviction API like all others;
- for a DaemonSet that NVIDIA's operator places by a node label `nvidia.com/gpu.deploy.*=true`, the value
  `paused-for-driver-upgrade`, which its own driver manager uses too: the DaemonSet controller takes the pod away.

A DaemonSet that tolerates every taint and has no such label can't be kept away. It is named, evicted last, and when its
new pod holds the module by then, unloading says busy and the new driver comes into effect by a reboot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.kube.api import Api, merged
from provisioner.kube.objects import Node, Pod, tolerates
from provisioner.upgrade import pods as rules
from provisioner.upgrade.drain import Asking, Blocker, Outcome, Progress, Waiting, leaving, until_none
from provisioner.upgrade.record import refuse_newer

TAINT = "provision.dev/driver-upgrade"
EFFECT = "NoSchedule"
PAUSED = "paused-for-driver-upgrade"
_DEPLOY = "nvidia.com/gpu.deploy."
_LABEL = "node-label "
_DAEMON = "daemonset "


@dataclass(frozen=True)
class Pause:
    """How the DaemonSets' pods are kept away.

    labels     node labels to pause, with the values to give back
    daemons    DaemonSets ("NAMESPACE/NAME") whose pods go
    returning  those of them that tolerate every taint: they make new pods at once
    """

    labels: tuple[tuple[str, str], ...] = ()
    daemons: tuple[str, ...] = ()
    returning: tuple[str, ...] = ()

    @property
    def remembered(self) -> tuple[str, ...]:
        """What NodeRecord.clients keeps, to give back."""
        return (
            *(f"{_LABEL}{key}={value}" for key, value in self.labels),
            *(_DAEMON + name for name in self.daemons),
        )


def pause(node: Node, clients: Iterable[Pod]) -> Pause:
    """What to do about the clients among a node's pods (see pods.clients). Pure."""
    labels: dict[str, str] = {}
    daemons, returning = set(), set()
    for pod in clients:
        daemons.add(_name(pod))
        keys = _deploy_labels(pod, node)
        labels |= {key: "true" if node.labels[key] == PAUSED else node.labels[key] for key in keys}
        if not keys and tolerates(pod.tolerations, TAINT, EFFECT):
            returning.add(_name(pod))
    return Pause(tuple(sorted(labels.items())), tuple(sorted(daemons)), tuple(sorted(returning)))


def _deploy_labels(pod: Pod, node: Node) -> list[str]:
    return [key for key in pod.node_selector if key.startswith(_DEPLOY) and key in node.labels]


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.controller[1]}"


def paused(node: Node, labels: Iterable[tuple[str, str]]) -> dict[str, Any] | None:
    """The merge patch that keeps new pods of DaemonSets away, None where the node is so already. Pure."""
    change = {key: PAUSED for key, _ in labels if node.labels.get(key) != PAUSED}
    parts: list[dict[str, Any]] = [{"metadata": {"labels": change}}] if change else []
    if not any(_ours(taint) for taint in node.taints):
        parts.append({"spec": {"taints": [*node.taints, {"key": TAINT, "effect": EFFECT}]}})
    return merged(*parts) or None


def resumed(node: Node, remembered: Sequence[str] = ()) -> dict[str, Any] | None:
    """The merge patch that lets DaemonSets' pods come back, None where the node is so already. Pure.

    Labels found paused that nobody remembered (a run died in between) get "true", the operator's own value.
    """
    noted = dict(entry.removeprefix(_LABEL).split("=", 1) for entry in remembered if entry.startswith(_LABEL))
    change = {
        key: noted.get(key, "true") for key, value in node.labels.items() if key.startswith(_DEPLOY) and value == PAUSED
    }
    parts: list[dict[str, Any]] = [{"metadata": {"labels": change}}] if change else []
    others = [taint for taint in node.taints if not _ours(taint)]
    if len(others) != len(node.taints):
        parts.append({"spec": {"taints": others or None}})
    return merged(*parts) or None


def _ours(taint: Any) -> bool:
    return bool(taint.get("key") == TAINT)


def keep_away(on: Waiting, plan: Pause, use: Callable[[], rules.GpuUse], token: int) -> Outcome:
    """Taint and label the node, evict its clients, and wait until they are gone. May be called again after a crash.

    Of DaemonSets in `plan.returning` the pods that were there are evicted, and new ones not waited for.
    Raises LeaseLost, what `guard` raises, KubeError.
    """
    on.guard()

    def decide(node: Node) -> dict[str, Any] | None:
        refuse_newer(node, token)
        return paused(node, plan.labels)

    node = on.api.change_node(on.node, decide)
    asking, once = Asking(on), set[str]()

    def look(seconds: float) -> Progress:
        found = rules.clients(on.api.pods(node=on.node), use())
        if not once:
            once.update(pod.uid for pod in found)
        left = [pod for pod in found if pod.uid in once or _name(pod) not in plan.returning]
        # The DaemonSet controller itself takes away what a label placed.
        going = [pod for pod in left if pod.terminating or _deploy_labels(pod, node)]
        kept = asking.ask([pod for pod in left if pod not in going], seconds)
        blockers = (*kept, *(Blocker(pod.full_name, leaving(pod)) for pod in going))
        return Progress(len(left), blockers, asking.evicted, seconds)

    return until_none(on, look)


def let_back(api: Api, name: str, token: int, remembered: Sequence[str] = ()) -> None:
    """Take our taint off and give paused labels back. Raises LeaseLost, KubeError."""

    def decide(node: Node) -> dict[str, Any] | None:
        refuse_newer(node, token)
        return resumed(node, remembered)

    api.change_node(name, decide)


def wait_back(on: Waiting, remembered: Sequence[str]) -> Outcome:
    """Wait until each remembered DaemonSet that still exists has a ready pod on the node again."""
    wanted = {entry.removeprefix(_DAEMON) for entry in remembered if entry.startswith(_DAEMON)}

    def look(seconds: float) -> Progress:
        there = {f"{daemon.namespace}/{daemon.name}" for daemon in on.api.daemons()} if wanted else set()
        ready = {_name(pod) for pod in on.api.pods(node=on.node) if pod.ready and not pod.terminating}
        blockers = tuple(
            Blocker(f"DaemonSet {name}", "has no ready pod here yet") for name in sorted(wanted & there - ready)
        )
        return Progress(len(blockers), blockers, 0, seconds)

    return until_none(on, look)
