"""A cordon has owners: a set of names in the node's annotation `provision.dev/cordon-owners`.

The format is the boot self-test's (docs/selftest.md): names sorted, separated by commas. The rules:

- A node that can be scheduled has no owners, whatever the annotation still says.
- An unschedulable node without the annotation was cordoned by a person (or a tool that doesn't know of owners), and
  so was one whose `spec.unschedulable` is held by a field manager that isn't ours: it was uncordoned and cordoned
  again since we noted owners.
- A cordon goes only with its last owner. What is left of a person's cordon needs no annotation: `kubectl uncordon`
  ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from provisioner.errors import KubeError
from provisioner.kube.api import Api
from provisioner.kube.objects import Node
from provisioner.upgrade.record import refuse_newer

ANNOTATION = "provision.dev/cordon-owners"
US = "upgrade"
PERSON = "person"
SELF_TEST = "self-test"
_OURS = "provision"
"""Field managers that begin so are ours: provision-upgrade, provision-selftest."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """`owners` of a node's cordon now, () while it can be scheduled; `before`: the owners that were not us."""

    owners: tuple[str, ...]
    before: tuple[str, ...] = ()


def parse(text: str) -> frozenset[str]:
    """The names in an annotation's text."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def text(owners: Iterable[str]) -> str:
    """The annotation's text: sorted, separated by commas."""
    return ",".join(sorted(owners))


def owners_of(node: Node) -> frozenset[str]:
    """Who wants the node cordoned now. Pure."""
    if not node.unschedulable:
        return frozenset()
    noted = parse(node.annotations.get(ANNOTATION, ""))
    foreign = node.cordoned_by != "" and not node.cordoned_by.startswith(_OURS)
    return noted | {PERSON} if foreign or not noted else noted


def with_owner(node: Node, owner: str = US) -> dict[str, Any] | None:
    """The merge patch that cordons for `owner`, None where the node is so already. Pure."""
    return _patch(node, owners_of(node) | {owner})


def without_owner(node: Node, owner: str = US) -> dict[str, Any] | None:
    """The merge patch that ends `owner`'s part of the cordon, None where it has none. Pure.

    Where a person took `owner` out of the annotation, the cordon is left as it is.
    """
    if owner not in parse(node.annotations.get(ANNOTATION, "")):
        return None
    return _patch(node, owners_of(node) - {owner})


def _patch(node: Node, owners: frozenset[str]) -> dict[str, Any] | None:
    noted = text(owners) if owners - {PERSON} else None
    change: dict[str, Any] = {}
    if noted != node.annotations.get(ANNOTATION):
        change["metadata"] = {"annotations": {ANNOTATION: noted}}
    # An unchanged value is not sent: who holds the field stays who cordoned.
    if bool(owners) != node.unschedulable:
        change["spec"] = {"unschedulable": True if owners else None}
    return change or None


def cordon(api: Api, name: str, token: int, *, owner: str = US) -> Cordon:
    """Cordon a node for us and note us among the owners, in one patch; read back.

    Raises LeaseLost where a later roll works on the node; KubeError, also when the node isn't cordoned afterwards.
    """
    before: frozenset[str] = frozenset()

    def decide(node: Node) -> dict[str, Any] | None:
        nonlocal before
        refuse_newer(node, token)
        before = owners_of(node) - {owner}
        return with_owner(node, owner)

    api.change_node(name, decide)
    node = api.node(name)
    if owner not in owners_of(node):
        raise KubeError(
            f"node {name} isn't cordoned although the API took the patch",
            why=f"spec.unschedulable is {node.unschedulable}, owners are {text(owners_of(node)) or 'none'}",
            remedy="see which controller changes the node (managedFields of the node name it)",
        )
    return Cordon(tuple(sorted(owners_of(node))), tuple(sorted(before)))


def uncordon(api: Api, name: str, token: int, *, owner: str = US) -> Cordon:
    """End our part of a cordon; the node becomes schedulable only where nobody else wants it cordoned. Read back.

    Raises LeaseLost where a later roll works on the node; KubeError.
    """

    def decide(node: Node) -> dict[str, Any] | None:
        refuse_newer(node, token)
        return without_owner(node, owner)

    api.change_node(name, decide)
    owners = owners_of(api.node(name))
    if owner in owners:
        raise KubeError(f"node {name} still has {owner} among the owners of its cordon", why=text(owners))
    return Cordon(tuple(sorted(owners)))
