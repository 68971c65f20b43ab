"""Which nodes a roll takes, which it leaves out, and which can't be upgraded as asked. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provisioner.kube.objects import Budget, Node, Pod
from provisioner.model.upgrade import ENDED, Kind, NodeRecord, Phase, PlannedNode
from provisioner.upgrade import cordon
from provisioner.upgrade import pods as rules
from provisioner.upgrade.checks import HostCheck
from provisioner.upgrade.identity import control_plane
from provisioner.upgrade.requirements import ImageNeed

SKIP = "provision.dev/skip-upgrade"
SKIP_LABELS = (SKIP, "nvidia.com/gpu-driver-upgrade.skip")
"""Labels (or, for ours, an annotation) with "true" that keep a node out; the second is the GPU Operator's."""


@dataclass(frozen=True)
class Picture:
    """What the cluster looks like: each host's node, all pods on those nodes by node name, all budgets."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    budgets: Collection[Budget] = ()
    use: rules.GpuUse = field(default_factory=rules.GpuUse)

    def gpu_pods(self, host: str) -> list[Pod]:
        """Running pods with cards on a host's node, DaemonSets' left out."""
        node = self.nodes.get(host)
        on = self.pods.get(node.name, ()) if node is not None else ()
        return [
            pod for pod in on if pod.running and rules.kind(pod, self.use) in (rules.Kind.GPU, rules.Kind.UNMANAGED)
        ]

    def images(self, host: str) -> tuple[ImageNeed, ...]:
        """What their images ask of the driver, where their environment says it."""
        return tuple(
            ImageNeed(pod.full_name, f"cuda>={version}")
            for pod in self.gpu_pods(host)
            if rules.why_gpu(pod, self.use) and (version := rules.cuda_required(pod))
        )


def kept_out(node: Node, record: NodeRecord | None, named: bool) -> str:
    """Why a node isn't part of the roll, "" when it is. `named`: the command line names exactly this host."""
    if any(node.labels.get(key) == "true" for key in SKIP_LABELS) or node.annotations.get(SKIP) == "true":
        return (
            f"it is marked {SKIP}=true" if SKIP in {**node.labels, **node.annotations} else "the GPU Operator skips it"
        )
    owners = cordon.owners_of(node) - {cordon.US}
    if owners:
        return f"cordoned by {', '.join(sorted(owners))}"
    if record is not None and record.phase is Phase.BROKEN and not named:
        return f"an earlier roll left it broken: {record.reason or 'no reason kept'}; name it with --limit to try again"
    if not node.ready:
        return "not Ready"
    return ""


def in_the_middle(record: NodeRecord | None) -> str:
    """Why a new roll doesn't take a node that an earlier one left in a phase of its own, "" when it may."""
    if record is None or record.phase in ENDED or record.phase is Phase.PENDING:
        return ""
    return f"run {record.run} left it while {record.phase.value}: go on with --resume first"


def kind_of(records: Iterable[NodeRecord]) -> Kind | None:
    """What the latest roll was about, by its records: of nodes in the middle where there are any. None: no record."""
    known = list(records)
    middle = [record for record in known if in_the_middle(record)]
    latest = max(middle or known, key=lambda record: (record.token, record.since), default=None)
    return None if latest is None else latest.kind


def notes_of(host: str, picture: Picture) -> tuple[str, ...]:
    """What a person should know before the drain: budgets that allow no eviction now, pods that nobody makes anew."""
    gpu = [pod for pod in picture.gpu_pods(host) if rules.why_gpu(pod, picture.use)]
    told = [
        f"{pod.full_name} can't be evicted now: disruption budget {budget.full_name} allows none"
        for pod, budget in rules.blocking(gpu, list(picture.budgets))
    ]
    told += [
        f"{pod.full_name} has no controller that makes a new one: the drain waits until it ends"
        for pod in gpu
        if rules.kind(pod, picture.use) is rules.Kind.UNMANAGED
    ]
    return tuple(told)


def planned(check: HostCheck, node: Node | None, picture: Picture) -> PlannedNode:
    """The node as the plan shows it."""
    return PlannedNode(
        host=check.host,
        node=node.name if node is not None else "",
        source=check.source,
        target=check.target,
        way_back=not any("no way back" in note for note in check.notes),
        notes=(*check.notes, *notes_of(check.host, picture)),
        control_plane=node is not None and control_plane(node),
    )
