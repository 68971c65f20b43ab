"""Which pods are in the way of a new driver, and which of them may be asked to go. Pure.

A pod uses a card when a container of it, init container included, requests or is limited to a resource under
nvidia.com/ (MIG instances and shared cards are there too), when it has a ResourceClaim that NVIDIA's driver of dynamic
resource allocation served, or when a process of it holds a device file on the host, asked for or not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from provisioner.kube.objects import Budget, Claim, Pod, selects

DRA_DRIVERS = frozenset({"gpu.nvidia.com", "compute-domain.nvidia.com"})
"""Drivers of NVIDIA's k8s-dra-driver-gpu: cards and MIG instances, and IMEX channels."""

RESOURCES = ("nvidia.com/",)
CONSENT = ("provision.dev/evict", "cluster-autoscaler.kubernetes.io/safe-to-evict")
"""Annotations that, with "true", say that a pod which nobody makes anew may be evicted all the same."""

SMOKE_LABEL = "provision.dev/smoke"

_CLIENTS = (
    "k8s-device-plugin",
    "nvidia-device-plugin",
    "dcgm",
    "gpu-feature-discovery",
    "mig-manager",
    "nvidia-dra-driver",
    "dra-driver-gpu",
    "nvidia-operator-validator",
    "nvidia-container-toolkit",
    "nvsm",
    "imex",
)
"""What names of NVIDIA's own DaemonSets contain, in its operator, its charts and its plain manifests."""

_NAMED_BY = ("app", "app.kubernetes.io/name", "app.kubernetes.io/component", "k8s-app", "name")


class Kind(Enum):
    """What a pod is to a drain.

    GPU and OTHER are evicted (OTHER only when everything must go). UNMANAGED: it should go, and nobody would make a
    new one. CLIENT: a DaemonSet's pod that uses or serves the cards; DAEMON: another DaemonSet's. MIRROR: of a static
    pod, which only its file on the host ends; MIRROR_GPU: such a one that uses a card. TERMINATING: on its way out.
    GONE: it runs no more.
    """

    GPU = "gpu"
    OTHER = "other"
    UNMANAGED = "unmanaged"
    CLIENT = "client"
    DAEMON = "daemon"
    MIRROR = "mirror"
    MIRROR_GPU = "mirror-gpu"
    TERMINATING = "terminating"
    GONE = "gone"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What tells that pods use cards, beyond their own specs: `claims` that NVIDIA's drivers served, by (namespace,
    name), and `holders`: uids of pods whose processes hold device files, found on the host."""

    claims: frozenset[tuple[str, str]] = frozenset()
    holders: frozenset[str] = frozenset()


def gpu_use(claims: Iterable[Claim], holders: Collection[str]) -> GpuUse:
    """From the cluster's claims and the uids found on the host (cgroup names write them with "_" for "-")."""
    served = frozenset((claim.namespace, claim.name) for claim in claims if claim.drivers & DRA_DRIVERS)
    return GpuUse(served, frozenset(uid.replace("_", "-").lower() for uid in holders))


def why_gpu(pod: Pod, use: GpuUse) -> str:
    """By what the pod uses a card, for people; "" for one that doesn't."""
    wanted = sorted(name for name in pod.resources if name.startswith(RESOURCES))
    if wanted:
        return "requests " + ", ".join(wanted)
    claims = [name for name in pod.claims if (pod.namespace, name) in use.claims]
    if claims:
        return "claims " + ", ".join(claims)
    # The mirror of a static pod has another uid than the kubelet's own, which its annotation keeps.
    if {pod.uid.lower(), pod.annotations.get("kubernetes.io/config.hash", "").lower()} & use.holders - {""}:
        return "holds a device file of NVIDIA's"
    return ""


def client(pod: Pod) -> bool:
    """Whether a DaemonSet's pod is one of those that serve or watch the cards, by its labels and its DaemonSet."""
    if any(key.startswith("nvidia.com/gpu.deploy.") for key in pod.node_selector):
        return True
    names = [pod.controller[1], *(pod.labels.get(key, "") for key in _NAMED_BY)]
    return any(known in name for name in names for known in _CLIENTS)


def kind(pod: Pod, use: GpuUse) -> Kind:
    """What the pod is to a drain."""
    if not pod.running:
        return Kind.GONE
    if SMOKE_LABEL in pod.labels:
        return Kind.OURS
    gpu = bool(why_gpu(pod, use))
    if "kubernetes.io/config.mirror" in pod.annotations:
        return Kind.MIRROR_GPU if gpu else Kind.MIRROR
    if pod.controller[0] == "DaemonSet":
        return Kind.CLIENT if gpu or client(pod) else Kind.DAEMON
    if pod.terminating:
        return Kind.TERMINATING
    if not pod.controller[0] and not any(pod.annotations.get(key) == "true" for key in CONSENT):
        return Kind.UNMANAGED
    return Kind.GPU if gpu else Kind.OTHER


@dataclass(frozen=True, slots=True)
class Drain:
    """What a drain has before it: `evict` now, `wait` for (already going), `stuck`: must go and may not be evicted,
    with the reason."""

    evict: tuple[Pod, ...] = ()
    wait: tuple[Pod, ...] = ()
    stuck: tuple[tuple[Pod, str], ...] = ()

    @property
    def done(self) -> bool:
        """Nothing is in the way any more."""
        return not (self.evict or self.wait or self.stuck)


def drain(pods: Iterable[Pod], use: GpuUse, mode: Literal["gpu-pods", "full"]) -> Drain:
    """What must happen to a node's pods before the driver may be touched. DaemonSets are left out: see daemons."""
    evict, wait, stuck = [], [], []
    for pod in sorted(pods, key=lambda pod: pod.full_name):
        what, wanted = kind(pod, use), mode == "full" or bool(why_gpu(pod, use))
        if what is Kind.MIRROR_GPU:
            stuck.append((pod, "is a static pod, which only its manifest on the host ends"))
        elif not wanted or what in (Kind.GONE, Kind.OURS, Kind.MIRROR, Kind.DAEMON, Kind.CLIENT):
            continue
        elif what is Kind.TERMINATING:
            wait.append(pod)
        elif what is Kind.UNMANAGED:
            stuck.append((pod, f"has no controller that makes a new one: end it, or annotate it {CONSENT[0]}=true"))
        else:
            evict.append(pod)
    return Drain(tuple(evict), tuple(wait), tuple(stuck))


def clients(pods: Iterable[Pod], use: GpuUse) -> tuple[Pod, ...]:
    """The DaemonSets' running pods that use or serve the cards."""
    return tuple(sorted((p for p in pods if kind(p, use) is Kind.CLIENT), key=lambda pod: pod.full_name))


def unfinished(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Of the pods that a selector of jobs named: those still to be waited for. A DaemonSet's never end."""
    return tuple(pod for pod in pods if pod.running and pod.controller[0] != "DaemonSet")


def budgets_of(pod: Pod, budgets: Iterable[Budget]) -> tuple[Budget, ...]:
    """The budgets that cover a pod."""
    return tuple(b for b in budgets if b.namespace == pod.namespace and selects(b.selector, pod.labels))


def blocking(pods: Iterable[Pod], budgets: Collection[Budget]) -> tuple[tuple[Pod, Budget], ...]:
    """Pods whose budget allows no eviction now, with that budget."""
    return tuple((pod, b) for pod in pods for b in budgets_of(pod, budgets) if b.allowed < 1)


_REQUIRED = re.compile(r"cuda\s*>=\s*(\d+\.\d+)")
_VERSION = re.compile(r"(\d+\.\d+)(\.\d+)*$")


def cuda_required(pod: Pod) -> str:
    """The CUDA version ("12.4") that a pod's own environment asks for, "" where it says nothing.

    NVIDIA_REQUIRE_CUDA holds alternatives separated by spaces, each a list of conditions separated by commas, of
    which nvidia-container-cli checks all of one; CUDA_VERSION is what NVIDIA's images are labelled with. With
    NVIDIA_DISABLE_REQUIRE nothing is checked.
    """
    env = dict(pod.env)
    if env.get("NVIDIA_DISABLE_REQUIRE", "").lower() in ("1", "true"):
        return ""
    asked: list[list[str]] = [
        _REQUIRED.findall(alternative) for alternative in env.get("NVIDIA_REQUIRE_CUDA", "").split(" ")
    ]
    found = [max(some, key=_number) for some in asked if some]
    if found:
        return min(found, key=_number)
    version = _VERSION.match(env.get("CUDA_VERSION", ""))
    return version[1] if version else ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
