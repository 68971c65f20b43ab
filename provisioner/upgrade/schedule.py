"""In which order nodes come, and how many at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.errors import UsageError
from provisioner.model.upgrade import PlannedNode


def ordered(
    nodes: Sequence[PlannedNode],
    groups: Mapping[str, Sequence[str]],
    order: Sequence[str],
    canary: str,
    last: str | None = None,
) -> tuple[PlannedNode, ...]:
    """The canary first, then the groups of `order`, then the rest in the inventory's order; members of the control
    plane always last, and only those that `order` names by a group. `last` is a host that comes behind all others
    unless it is the canary: the one that kubectl runs on.

    Raises UsageError for a group that doesn't exist and for a canary that isn't among the nodes.
    """

    def first(node: PlannedNode) -> bool:
        return canary != "" and canary in (node.host, node.node)

    for name in order:
        if name not in groups:
            raise UsageError(f"--order: there is no group {name!r}", why=f"groups are: {', '.join(groups) or 'none'}")
    if canary and not any(map(first, nodes)):
        raise UsageError(f"--canary: {canary!r} is not among the nodes of this roll", remedy="see the plan")
    place = {host: number for number, name in reversed(list(enumerate(order))) for host in groups[name]}
    wanted = [node for node in nodes if not node.control_plane or node.host in place]

    def rank(node: PlannedNode) -> tuple[bool, bool, bool, int]:
        behind = node.host == last and not first(node)
        return behind, node.control_plane, not first(node), place.get(node.host, len(order))

    return tuple(sorted(wanted, key=rank))


def at_once(text: str, nodes: int) -> int:
    """How many nodes `--max-unavailable` means: a number, or a share of all nodes rounded down, never less than one.

    Raises UsageError.
    """
    number = text.removesuffix("%")
    if not number.isdigit() or int(number) == 0 or (text.endswith("%") and int(number) > 100):
        raise UsageError(f"--max-unavailable {text!r} is neither a number of nodes nor a share", remedy="e.g. 2 or 10%")
    return max(1, nodes * int(number) // 100) if text.endswith("%") else int(number)
