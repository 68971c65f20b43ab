"""Which nodes take part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.kube.objects import Budget, Node, Pod
from provisioner.model.upgrade import NodeRecord, Phase
from provisioner.upgrade import cordon
from provisioner.upgrade.selection import Picture, in_the_middle, kept_out, notes_of

READY = Node("gpu01", ready=True)


def record(phase: Phase, reason: str = "") -> NodeRecord:
    return NodeRecord("gpu01", phase=phase, run="r1", reason=reason)


def test_a_ready_node_takes_part() -> None:
    assert kept_out(READY, None, False) == ""
    assert kept_out(READY, record(Phase.FAILED), False) == ""


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (Node("n", ready=False), "not Ready"),
        (Node("n", ready=True, unschedulable=True), "cordoned by person"),
        (
            Node("n", ready=True, unschedulable=True, annotations={cordon.ANNOTATION: "mig,upgrade"}),
            "cordoned by mig",
        ),
        (Node("n", ready=True, annotations={"provision.dev/skip-upgrade": "true"}), "provision.dev/skip-upgrade"),
        (Node("n", ready=True, labels={"provision.dev/skip-upgrade": "true"}), "provision.dev/skip-upgrade"),
        (Node("n", ready=True, labels={"nvidia.com/gpu-driver-upgrade.skip": "true"}), "GPU Operator"),
    ],
)
def test_what_keeps_a_node_out_is_said(node: Node, why: str) -> None:
    assert why in kept_out(node, None, False)


def test_our_own_cordon_keeps_no_node_out() -> None:
    node = Node("n", ready=True, unschedulable=True, annotations={cordon.ANNOTATION: "upgrade"})
    assert kept_out(node, None, False) == ""


def test_a_broken_node_is_taken_only_when_it_is_named() -> None:
    broken = record(Phase.BROKEN, "no card came back")
    assert "no card came back" in kept_out(READY, broken, False)
    assert "--limit" in kept_out(READY, broken, False)
    assert kept_out(READY, broken, True) == ""


def test_a_new_roll_does_not_begin_in_the_middle_of_another() -> None:
    assert in_the_middle(None) == ""
    for phase in (Phase.DONE, Phase.FAILED, Phase.ROLLED_BACK, Phase.BROKEN):
        assert in_the_middle(record(phase)) == ""
    assert in_the_middle(record(Phase.INSTALL)) == "run r1 left it while installing: go on with --resume first"


def test_budgets_and_pods_that_nobody_makes_anew_are_named_before_the_drain() -> None:
    lone = Pod("default", "lone", resources=frozenset({"nvidia.com/gpu"}), node="n", phase="Running")
    kept = replace(lone, name="kept", labels={"app": "a"}, controller=("ReplicaSet", "a"))
    budget = Budget("default", "keep", selector={"matchLabels": {"app": "a"}}, allowed=0)
    picture = Picture({"gpu01": Node("n", ready=True)}, {"n": [kept, lone]}, [budget])
    told = notes_of("gpu01", picture)
    assert any("default/kept" in note and "default/keep" in note for note in told)
    assert any("default/lone has no controller" in note for note in told)
    assert notes_of("gpu02", picture) == ()
