"""A node is trusted with pods again only after one has computed on a card of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.config.templates import Templates
from provisioner.errors import Interrupted, KubeError
from provisioner.kube.objects import Node
from provisioner.upgrade import smoke
from provisioner.upgrade.drain import Waiting
from tests.unit.kube.memory import MemoryKubectl, api_of, merge

PATH = f"{smoke.PODS}/{smoke.name_of('n1')}"
NODE = Node("n1", allocatable={"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 0})


def render(name: str, values: Mapping[str, Any]) -> str:
    return Templates([Path("/nonexistent")]).template(name, values)


def node_of(kubectl: MemoryKubectl, cards: str = "8") -> None:
    kubectl.node("n1")
    path = "/api/v1/nodes/n1"
    kubectl.put(path, merge(kubectl.objects[path], {"status": {"allocatable": {"nvidia.com/gpu": cards}}}))


def ends(kubectl: MemoryKubectl, phase: str, message: str = "") -> None:
    """kubelet runs the pod as soon as it is looked at."""

    def runs(call: str) -> None:
        if call == f"get {PATH}" and PATH in kubectl.objects:
            ended = {"state": {"terminated": {"reason": "Completed", "message": message}}}
            kubectl.objects[PATH]["status"] = {"phase": phase, "containerStatuses": [ended]}

    kubectl.before = runs


def compute(kubectl: MemoryKubectl, timeout: float = 120.0) -> smoke.Verdict:
    api, _ = api_of(kubectl)
    return smoke.compute(api, "n1", smoke.Smoke("check:1"), render, guard=lambda: None, timeout=timeout)


def test_the_pod_asks_for_one_card_on_that_node_in_spite_of_every_taint() -> None:
    body = smoke.manifest(NODE, smoke.Smoke("a/b:1", ("sh", "-c", 'echo "x"'), "nvidia"), render)
    spec = body["spec"]
    assert spec["nodeName"] == "n1"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"][0]["command"] == ["sh", "-c", 'echo "x"']
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    plain = smoke.manifest(NODE, smoke.Smoke(), render)["spec"]
    assert "runtimeClassName" not in plain
    assert "command" not in plain["containers"][0]


def test_with_mig_it_asks_for_an_instance() -> None:
    assert smoke.resource_of(replace(NODE, allocatable={"nvidia.com/mig-2g.20gb": 1})) == "nvidia.com/mig-2g.20gb"
    assert smoke.resource_of(replace(NODE, allocatable={"nvidia.com/gpu": 0})) == ""


@pytest.mark.parametrize(
    ("phase", "message", "ok", "said"),
    [
        ("Succeeded", "", True, "computed"),
        ("Succeeded", "CARD {}\nRESULT pass - 8 cards computed\n", True, "8 cards computed"),
        ("Succeeded", "CARD {}\nRESULT fail FatalXid card 0\n", False, "fail FatalXid card 0"),
        ("Failed", "CUDA driver version is insufficient", False, "insufficient"),
    ],
)
def test_what_it_found_counts(phase: str, message: str, ok: bool, said: str) -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl)
    ends(kubectl, phase, message)
    verdict = compute(kubectl)
    assert verdict.ok is ok
    assert said in verdict.text
    assert PATH not in kubectl.objects, "the pod is taken away again"


def test_what_a_dead_run_left_is_taken_away_first() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl)
    kubectl.put(PATH, {"metadata": {"labels": {"provision.dev/smoke": "true"}}, "status": {"phase": "Failed"}})
    old = kubectl.objects[PATH]["metadata"]["resourceVersion"]
    ends(kubectl, "Succeeded")
    assert compute(kubectl).ok
    assert old
    assert [call.split()[0] for call in kubectl.calls if not call.startswith("get")] == ["delete", "create", "delete"]


def test_somebody_elses_pod_of_that_name_is_left_alone() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl)
    kubectl.put(PATH, {"status": {"phase": "Running"}})
    with pytest.raises(KubeError, match="isn't provision's"):
        compute(kubectl)
    assert PATH in kubectl.objects


def test_a_pod_that_never_starts_says_what_it_waits_for() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl)

    def pulls(call: str) -> None:
        if call == f"get {PATH}" and PATH in kubectl.objects:
            waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
            kubectl.objects[PATH]["status"] = {"phase": "Pending", "containerStatuses": [waits]}

    kubectl.before = pulls
    verdict = compute(kubectl, 10)
    assert not verdict.ok
    assert "ImagePullBackOff: no such image" in verdict.text


def test_a_node_without_cards_is_no_good() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl, "0")
    assert "offers no card" in compute(kubectl).text
    assert not any(call.startswith("create") for call in kubectl.calls)


def test_ctrl_c_is_no_verdict_about_the_node() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl)
    api, _ = api_of(kubectl)
    api.stop.set()
    with pytest.raises(Interrupted):
        smoke.compute(api, "n1", smoke.Smoke("check:1"), render, guard=lambda: None)


def test_the_number_of_cards_must_be_right() -> None:
    kubectl = MemoryKubectl()
    node_of(kubectl, "7")

    def comes(now: float) -> None:
        if now > 1_000_020:
            node_of(kubectl, "8")

    api, _ = api_of(kubectl, comes)
    short = smoke.wait_offered(Waiting(api, "n1", 10, lambda: None), {"nvidia.com/gpu": 8})
    assert short.ended == "timeout"
    assert "offers 7 nvidia.com/gpu, expected are 8" in short.last.text
    assert smoke.wait_offered(Waiting(api, "n1", 60, lambda: None), {"nvidia.com/gpu": 8}).ok
