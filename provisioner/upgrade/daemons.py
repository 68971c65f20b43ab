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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.kube.api import merged
from provisioner.kube.objects import Node, Pod, tolerates

TAINT = "provision.dev/driver-upgrade"
EFFECT = "NoSchedule"
PAUSED = "paused-for-driver-upgrade"
_DEPLOY = "nvidia.com/gpu.deploy."
_LABEL = "node-label "


@dataclass(frozen=True)
class Pause:
    """How the DaemonSets' pods are kept away.

    labels   node labels to pause, with the values to give back
    evict    pods to evict once the taint is there
    returning  those of them that tolerate every taint: their DaemonSets make new ones at once
    """

    labels: tuple[tuple[str, str], ...] = ()
    evict: tuple[Pod, ...] = ()
    returning: tuple[Pod, ...] = ()

    @property
    def remembered(self) -> tuple[str, ...]:
        """What NodeRecord.clients keeps, to give back."""
        return tuple(f"{_LABEL}{key}={value}" for key, value in self.labels)


def pause(node: Node, clients: Iterable[Pod]) -> Pause:
    """What to do about the clients among a node's pods (see pods.clients). Pure."""
    labels: dict[str, str] = {}
    evict, returning = [], []
    for pod in clients:
        keys = [key for key in pod.node_selector if key.startswith(_DEPLOY) and key in node.labels]
        if keys:
            labels |= {key: "true" if node.labels[key] == PAUSED else node.labels[key] for key in keys}
            continue
        evict.append(pod)
        if tolerates(pod.tolerations, TAINT, EFFECT):
            returning.append(pod)
    return Pause(tuple(sorted(labels.items())), tuple(evict), tuple(returning))


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
