"""DaemonSets that hold the cards are kept away while the driver changes, and everything is given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provisioner.kube.objects import Node, Pod, node
from provisioner.upgrade import daemons
from provisioner.upgrade.drain import Waiting
from provisioner.upgrade.pods import GpuUse
from tests.unit.kube.memory import MemoryKubectl, api_of, merge

PLUGIN = Pod("kube-system", "plugin-x", uid="u1", controller=("DaemonSet", "nvidia-device-plugin"))
OPERATED = replace(PLUGIN, name="dcgm-x", node_selector={"nvidia.com/gpu.deploy.dcgm": "true"})
EVERYWHERE = replace(PLUGIN, name="agent-x", controller=("DaemonSet", "agent"), tolerations=({"operator": "Exists"},))
OURS = {"key": "provision.dev/driver-upgrade", "effect": "NoSchedule"}


def after(found: Node, patch: Any) -> Node:
    raw = {
        "metadata": {"name": found.name, "labels": dict(found.labels)},
        "spec": {"taints": list(found.taints)} if found.taints else {},
    }
    return node(merge(raw, patch or {}))


def test_a_plain_daemonset_is_kept_away_by_a_taint() -> None:
    found = Node("n1", taints=({"key": "other", "effect": "NoSchedule"},))
    plan = daemons.pause(found, [PLUGIN])
    assert plan == daemons.Pause(daemons=("kube-system/nvidia-device-plugin",))
    held = after(found, daemons.paused(found, plan.labels))
    assert list(held.taints) == [{"key": "other", "effect": "NoSchedule"}, OURS]
    assert daemons.paused(held, plan.labels) is None
    assert after(held, daemons.resumed(held, plan.remembered)) == found


def test_nvidias_operator_is_told_in_its_own_words() -> None:
    found = Node("n1", labels={"nvidia.com/gpu.deploy.dcgm": "true", "nvidia.com/gpu.deploy.driver": "pre-installed"})
    plan = daemons.pause(found, [OPERATED])
    assert plan.remembered[0] == "node-label nvidia.com/gpu.deploy.dcgm=true"
    held = after(found, daemons.paused(found, plan.labels))
    assert held.labels["nvidia.com/gpu.deploy.dcgm"] == "paused-for-driver-upgrade"
    assert held.labels["nvidia.com/gpu.deploy.driver"] == "pre-installed"
    assert daemons.pause(held, [OPERATED]).labels == plan.labels, "resumed after a crash"
    assert after(held, daemons.resumed(held, plan.remembered)) == found
    assert after(held, daemons.resumed(held, ())) == found, "even when nobody remembers"


def test_a_daemonset_that_nothing_keeps_away_is_named() -> None:
    assert daemons.pause(Node("n1"), [EVERYWHERE, PLUGIN]).returning == ("kube-system/agent",)


TAINTS = st.lists(
    st.sampled_from([("a", "NoSchedule"), ("b", "NoExecute"), ("nvidia.com/gpu", "NoSchedule")]), unique=True
).map(lambda pairs: tuple({"key": key, "effect": effect} for key, effect in pairs))


@given(TAINTS, st.dictionaries(st.sampled_from(["a", "nvidia.com/gpu.deploy.x"]), st.sampled_from(["true", "false"])))
def test_what_others_set_stays(taints: tuple[dict[str, str], ...], labels: dict[str, str]) -> None:
    found = Node("n1", taints=taints, labels=labels)
    plan = daemons.pause(found, [replace(OPERATED, node_selector={"nvidia.com/gpu.deploy.x": "true"}), PLUGIN])
    held = after(found, daemons.paused(found, plan.labels))
    assert after(held, daemons.resumed(held, plan.remembered)) == found


def test_they_are_evicted_after_the_taint_is_there_and_waited_for() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    kubectl.pod("plugin-x", controller="DaemonSet", metadata={"labels": {"app": "nvidia-device-plugin"}})
    kubectl.pod("logs-x", controller="DaemonSet")
    api, _ = api_of(kubectl)
    on = Waiting(api, "n1", 60, lambda: None)
    plan = daemons.pause(api.node("n1"), [pod for pod in api.pods("n1") if pod.name == "plugin-x"])
    assert daemons.keep_away(on, plan, GpuUse, 1).ok
    changes = [call for call in kubectl.calls if not call.startswith("get")]
    assert changes == ["patch /api/v1/nodes/n1", "create /api/v1/namespaces/default/pods/plugin-x/eviction"]
    daemons.let_back(api, "n1", 1, plan.remembered)
    assert api.node("n1").taints == ()


def test_one_that_comes_back_at_once_is_evicted_once() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    everything = {"tolerations": [{"operator": "Exists"}]}
    named = {"labels": {"app": "nvidia-device-plugin"}}
    kubectl.pod("plugin-x", controller="DaemonSet", spec=everything, metadata=named)

    def anew(call: str) -> None:
        if call.startswith("get") and not any("/pods/plugin" in path for path in kubectl.objects):
            kubectl.pod("plugin-y", controller="DaemonSet", spec=everything, metadata=named)

    kubectl.before = anew
    api, _ = api_of(kubectl)
    plan = daemons.pause(api.node("n1"), api.pods("n1"))
    assert plan.returning == ("default/owner",)
    assert daemons.keep_away(Waiting(api, "n1", 60, lambda: None), plan, GpuUse, 1).ok
    assert sum("eviction" in call for call in kubectl.calls) == 1


def test_their_pods_are_waited_for_afterwards() -> None:
    kubectl = MemoryKubectl()
    kubectl.node("n1")
    kubectl.put("/apis/apps/v1/namespaces/default/daemonsets/owner", {"metadata": {"namespace": "default"}})

    def comes(now: float) -> None:
        if now > 1_000_010:
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            kubectl.pod("plugin-y", controller="DaemonSet", status=ready)

    api, _ = api_of(kubectl, comes)
    remembered = ("daemonset default/owner", "daemonset default/deleted-meanwhile", "unit nvidia-dcgm")
    outcome = daemons.wait_back(Waiting(api, "n1", 60, lambda: None), remembered)
    assert outcome.ok
    assert outcome.last.seconds >= 10
    assert daemons.wait_back(Waiting(api, "n1", 60, lambda: None), ()).ok
