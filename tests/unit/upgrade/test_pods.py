"""Every pod that uses a card is found, and no pod of a user's goes that nobody makes anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.kube.objects import Budget, Claim, Pod
from provisioner.upgrade.pods import (
    CONSENT,
    GpuUse,
    Kind,
    blocking,
    clients,
    cuda_required,
    drain,
    gpu_use,
    kind,
    unfinished,
    why_gpu,
)

PLAIN = Pod("default", "p", uid="u-1", controller=("ReplicaSet", "r"))
GPU = replace(PLAIN, resources=frozenset({"nvidia.com/gpu"}))
USE = GpuUse(frozenset({("default", "claimed")}), frozenset({"u-holder"}))


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (GPU, "requests nvidia.com/gpu"),
        (replace(PLAIN, resources=frozenset({"nvidia.com/mig-1g.10gb"})), "requests nvidia.com/mig-1g.10gb"),
        (replace(PLAIN, claims=("claimed",)), "claims claimed"),
        (replace(PLAIN, uid="u-holder"), "holds a device file"),
        (replace(PLAIN, annotations={"kubernetes.io/config.hash": "u-holder"}), "holds a device file"),
        (PLAIN, ""),
        (replace(PLAIN, resources=frozenset({"amd.com/gpu"})), ""),
        (replace(PLAIN, namespace="other", claims=("claimed",)), ""),
    ],
)
def test_by_what_a_pod_uses_a_card(pod: Pod, said: str) -> None:
    found = why_gpu(pod, USE)
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_what_tells_of_use() -> None:
    claims = [
        Claim("a", "card", frozenset({"gpu.nvidia.com"})),
        Claim("a", "imex", frozenset({"compute-domain.nvidia.com"})),
        Claim("a", "disk", frozenset({"disk.example.com"})),
        Claim("a", "pending"),
    ]
    use = gpu_use(claims, ["AB_CD-ef"])
    assert use == GpuUse(frozenset({("a", "card"), ("a", "imex")}), frozenset({"ab-cd-ef"}))


DAEMON = replace(PLAIN, controller=("DaemonSet", "logs"))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (GPU, Kind.GPU),
        (PLAIN, Kind.OTHER),
        (replace(GPU, controller=("", "")), Kind.UNMANAGED),
        (replace(GPU, controller=("", ""), annotations={CONSENT[0]: "true"}), Kind.GPU),
        (replace(GPU, controller=("", ""), annotations={CONSENT[1]: "false"}), Kind.UNMANAGED),
        (replace(GPU, terminating=True), Kind.TERMINATING),
        (replace(GPU, running=False), Kind.GONE),
        (DAEMON, Kind.DAEMON),
        (replace(GPU, controller=("DaemonSet", "mine")), Kind.CLIENT),
        (replace(DAEMON, uid="u-holder"), Kind.CLIENT),
        (replace(DAEMON, controller=("DaemonSet", "nvidia-device-plugin-daemonset")), Kind.CLIENT),
        (replace(DAEMON, labels={"app.kubernetes.io/name": "dcgm-exporter"}), Kind.CLIENT),
        (replace(DAEMON, node_selector={"nvidia.com/gpu.deploy.mig-manager": "true"}), Kind.CLIENT),
        (replace(DAEMON, controller=("DaemonSet", "intel-gpu-plugin")), Kind.DAEMON),
        (replace(PLAIN, controller=("Node", "n1"), annotations={"kubernetes.io/config.mirror": "x"}), Kind.MIRROR),
        (replace(GPU, controller=("Node", "n1"), annotations={"kubernetes.io/config.mirror": "x"}), Kind.MIRROR_GPU),
        (replace(GPU, labels={"provision.dev/smoke": "true"}), Kind.OURS),
    ],
)
def test_what_a_pod_is_to_a_drain(pod: Pod, expected: Kind) -> None:
    assert kind(pod, USE) is expected


def named(*pods: Pod) -> list[Pod]:
    return [replace(pod, name=f"p{number}", uid=f"u-{number}") for number, pod in enumerate(pods)]


def test_only_what_uses_a_card_goes() -> None:
    pods = named(GPU, PLAIN, replace(PLAIN, controller=("", "")), DAEMON)
    todo = drain(pods, USE, "gpu-pods")
    assert [pod.name for pod in todo.evict] == ["p0"]
    assert not todo.stuck


def test_a_full_drain_takes_everything_but_what_a_node_is_made_of() -> None:
    mirror = replace(PLAIN, controller=("Node", "n1"), annotations={"kubernetes.io/config.mirror": "x"})
    pods = named(GPU, PLAIN, replace(PLAIN, controller=("", "")), DAEMON, mirror, replace(PLAIN, terminating=True))
    todo = drain(pods, USE, "full")
    assert [pod.name for pod in todo.evict] == ["p0", "p1"]
    assert [pod.name for pod in todo.wait] == ["p5"]
    assert [(pod.name, "no controller" in reason) for pod, reason in todo.stuck] == [("p2", True)]


def test_a_static_pod_with_a_card_is_named() -> None:
    mirror = replace(GPU, controller=("Node", "n1"), annotations={"kubernetes.io/config.mirror": "x"})
    assert "manifest on the host" in drain([mirror], USE, "gpu-pods").stuck[0][1]


PODS = st.builds(
    Pod,
    namespace=st.just("default"),
    name=st.uuids().map(str),
    uid=st.sampled_from(["u-holder", "u-x"]),
    controller=st.sampled_from([("", ""), ("ReplicaSet", "r"), ("Job", "j"), ("DaemonSet", "d"), ("Node", "n")]),
    annotations=st.sampled_from([{}, {CONSENT[0]: "true"}, {"kubernetes.io/config.mirror": "x"}]),
    terminating=st.booleans(),
    running=st.booleans(),
    resources=st.sampled_from([frozenset[str](), frozenset({"nvidia.com/gpu"})]),
)


@given(st.lists(PODS, max_size=12), st.sampled_from(["gpu-pods", "full"]))
def test_a_drain_is_done_only_without_users_of_cards_and_evicts_only_what_comes_back(
    pods: list[Pod], mode: str
) -> None:
    todo = drain(pods, USE, "full" if mode == "full" else "gpu-pods")
    for pod in todo.evict:
        assert pod.controller[0] != "DaemonSet"
        assert pod.controller[0] or pod.annotations.get(CONSENT[0]) == "true"
        assert pod.running
        assert not pod.terminating
        assert "kubernetes.io/config.mirror" not in pod.annotations
    handled = {p.name for p in (*todo.evict, *todo.wait, *(p for p, _ in todo.stuck), *clients(pods, USE))}
    assert {pod.name for pod in pods if pod.running and why_gpu(pod, USE)} <= handled


def test_jobs_are_waited_for_and_daemons_are_not() -> None:
    assert unfinished([GPU, replace(GPU, running=False), DAEMON]) == (GPU,)


def test_budgets_that_allow_nothing_are_named() -> None:
    pod = replace(GPU, labels={"app": "train"})
    mine = Budget("default", "keep", 0, {"matchLabels": {"app": "train"}})
    others = [
        replace(mine, namespace="x"),
        replace(mine, allowed=1),
        replace(mine, selector={"matchLabels": {"a": "b"}}),
    ]
    assert blocking([pod], [mine, *others]) == ((pod, mine),)


@pytest.mark.parametrize(
    ("env", "version"),
    [
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471"}, "12.4"),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}, "9.0"),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 cuda>=11.8,driver>=450"}, "11.8"),  # one alternative is enough
        ({"CUDA_VERSION": "12.4.1"}, "12.4"),
        ({"CUDA_VERSION": "12.4"}, "12.4"),
        ({"CUDA_VERSION": "latest"}, ""),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "1"}, ""),
        ({}, ""),
    ],
)
def test_cuda_that_a_pod_asks_for(env: dict[str, str], version: str) -> None:
    assert cuda_required(replace(GPU, env=tuple(env.items()))) == version
