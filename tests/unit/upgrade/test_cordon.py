"""Nobody's cordon is lost: not a person's, not the self-test's, not one that came while ours was there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import KubeError, LeaseLost
from provisioner.kube.objects import Node, node
from provisioner.model.upgrade import NodeRecord
from provisioner.upgrade import cordon, record
from tests.unit.kube.memory import MemoryKubectl, Object, api_of, merge

OWNERS = st.frozensets(st.sampled_from(["person", "self-test", "upgrade", "mig"]))
NODES = st.builds(
    lambda cordoned, owners, by: Node(
        "n1",
        unschedulable=cordoned,
        annotations={cordon.ANNOTATION: cordon.text(owners)} if owners else {},
        cordoned_by=by if cordoned else "",
    ),
    st.booleans(),
    OWNERS,
    st.sampled_from(["", "provision-upgrade", "provision-selftest", "kubectl-cordon"]),
)


def applied(found: Node, patch: dict[str, object] | None) -> Node:
    """The node as it is after the merge patch; who holds the field changes with the field only."""
    if patch is None:
        return found
    raw: Object = {"metadata": {"name": "n1", "annotations": dict(found.annotations)}, "spec": {}}
    if found.unschedulable:
        raw["spec"]["unschedulable"] = True
    after = node(merge(raw, patch))
    changed = after.unschedulable != found.unschedulable
    by = "provision-upgrade" if changed else found.cordoned_by
    return replace(after, cordoned_by=by if after.unschedulable else "")


@given(NODES)
def test_cordon_makes_us_an_owner_and_keeps_all_others(found: Node) -> None:
    after = applied(found, cordon.with_owner(found))
    assert after.unschedulable
    assert cordon.owners_of(after) == cordon.owners_of(found) | {"upgrade"}
    assert cordon.with_owner(after) is None, "a second time changes nothing"


@given(NODES)
def test_uncordon_ends_our_part_and_no_other(found: Node) -> None:
    after = applied(found, cordon.without_owner(found))
    assert cordon.owners_of(after) == cordon.owners_of(found) - {"upgrade"}
    assert after.unschedulable == bool(cordon.owners_of(found) - {"upgrade"})
    assert cordon.without_owner(after) is None


@given(NODES.filter(lambda n: "upgrade" not in cordon.owners_of(n)))
def test_cordon_and_uncordon_leave_the_node_as_it_was(found: Node) -> None:
    held = applied(found, cordon.with_owner(found))
    after = applied(held, cordon.without_owner(held))
    assert (after.unschedulable, cordon.owners_of(after)) == (found.unschedulable, cordon.owners_of(found))


@given(OWNERS)
def test_the_text_is_sorted_and_read_back(owners: frozenset[str]) -> None:
    text = cordon.text(owners)
    assert cordon.parse(text) == owners
    assert text.split(",") == sorted(text.split(","))
    assert cordon.parse(f" {text.replace(',', ' , ')},") == owners


def test_a_cordon_without_owners_is_a_persons() -> None:
    found = Node("n1", unschedulable=True)
    assert cordon.owners_of(found) == {"person"}
    assert cordon.with_owner(found) == {"metadata": {"annotations": {cordon.ANNOTATION: "person,upgrade"}}}


def test_who_cordoned_again_by_hand_keeps_the_cordon() -> None:
    """Uncordoned and cordoned by kubectl while we had noted ourselves."""
    found = Node("n1", unschedulable=True, cordoned_by="kubectl-cordon", annotations={cordon.ANNOTATION: "upgrade"})
    patch = cordon.without_owner(found)
    assert patch == {"metadata": {"annotations": {cordon.ANNOTATION: None}}}, "spec.unschedulable stays as it is"


def test_who_took_us_out_of_the_annotation_keeps_the_cordon() -> None:
    found = Node("n1", unschedulable=True, annotations={cordon.ANNOTATION: "person"})
    assert cordon.without_owner(found) is None


def test_through_the_api() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    assert cordon.cordon(api, "n1", 1) == cordon.Cordon(("upgrade",))
    assert cordon.cordon(api, "n1", 1).before == (), "resumed: we are nobody else"
    assert api.node("n1").cordoned_by == "provision-upgrade"
    assert cordon.uncordon(api, "n1", 1).owners == ()
    found = api.node("n1")
    assert not found.unschedulable
    assert cordon.ANNOTATION not in found.annotations


def test_a_self_test_that_fails_meanwhile_keeps_its_cordon() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    cordon.cordon(api, "n1", 1)

    def meanwhile(call: str) -> None:
        if call.startswith("patch"):
            kubectl.before = lambda call: None
            note = {"metadata": {"annotations": {cordon.ANNOTATION: "self-test,upgrade"}}}
            kubectl.put("/api/v1/nodes/n1", merge(kubectl.objects["/api/v1/nodes/n1"], note), "provision-selftest")

    kubectl.before = meanwhile
    assert cordon.uncordon(api, "n1", 1).owners == ("self-test",)
    assert api.node("n1").unschedulable
    assert api.node("n1").annotations[cordon.ANNOTATION] == "self-test"


def test_a_later_roll_keeps_its_cordon() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)
    record.write(api, NodeRecord("h1", "n1", token=9))
    cordon.cordon(api, "n1", 9)
    for change in (cordon.cordon, cordon.uncordon):
        with pytest.raises(LeaseLost):
            change(api, "n1", 8)
    assert api.node("n1").unschedulable


def test_a_cordon_that_does_not_hold_is_said() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    api, _ = api_of(kubectl)

    def undone(call: str) -> None:
        if call.startswith("get") and kubectl.objects["/api/v1/nodes/n1"]["spec"].get("unschedulable"):
            kubectl.put("/api/v1/nodes/n1", kubectl.objects["/api/v1/nodes/n1"] | {"spec": {}})

    kubectl.before = undone
    with pytest.raises(KubeError):
        cordon.cordon(api, "n1", 1)
