"""The product's side of the cluster with real kubectl: calls, lease, cordon, drain, DaemonSets, the computing pod."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.config.templates import Templates
from provisioner.errors import Conflict, Forbidden, Frozen, LeaseHeld, LeaseLost, NotFound
from provisioner.kube import rbac
from provisioner.kube.api import Api
from provisioner.kube.onhost import HostKubectl
from provisioner.model.upgrade import NodeRecord, Phase
from provisioner.transport.fake import ShellExecutor
from provisioner.upgrade import cordon, daemons, lease, record, smoke
from provisioner.upgrade import pods as rules
from provisioner.upgrade.drain import Progress, Waiting, drain
from provisioner.upgrade.holder import Holder, this_process
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.cluster.machine import Described

RBAC = Path(__file__).parents[2] / "templates/rbac/provision-upgrade.yaml"
BARE = {"apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r-1", "controller": True}


@pytest.fixture
def api(kubectl: Kubectl) -> Api:
    return kubectl.api()


def render(name: str, values: Mapping[str, Any]) -> str:
    return Templates([Path("/nonexistent")]).template(name, values)


def use() -> rules.GpuUse:
    return rules.GpuUse()


def on(api: Api, node: str = "n1", timeout: float = 20.0, report: Callable[[Progress], None] | None = None) -> Waiting:
    return Waiting(api, node, timeout, lambda: None, report or (lambda progress: None))


def test_nodes_and_pods_are_read(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1", "0123", gpus=2)
    cluster.add_pod("a", "n1", gpus=1, owner=BARE)
    node = api.node("n1")
    assert (node.machine_id, node.ready, node.allocatable) == ("0123", True, {"nvidia.com/gpu": 2})
    assert [pod.full_name for pod in api.pods("n1")] == ["default/a"]
    assert rules.kind(api.pods("n1")[0], use()) is rules.Kind.GPU
    assert api.pods("n2") == []
    with pytest.raises(NotFound):
        api.node("n9")


def test_an_outdated_patch_conflicts(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1")
    old = api.node("n1")
    api.patch_node("n1", {"metadata": {"labels": {"a": "1"}}}, old.version)
    with pytest.raises(Conflict):
        api.patch_node("n1", {"metadata": {"labels": {"a": "2"}}}, old.version)
    assert api.node("n1").labels["a"] == "1"


def test_changes_at_once_are_all_kept(cluster: Cluster, api: Api, kubectl: Kubectl) -> None:
    cluster.add_node("n1")

    def write(number: int) -> None:
        key = f"k{number}"
        patch = {"metadata": {"annotations": {key: "yes"}}}
        api.change_node("n1", lambda node: None if key in node.annotations else patch)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"k{number}" for number in range(4)} <= api.node("n1").annotations.keys()


def test_an_api_that_is_away_is_waited_for(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1")
    cluster.away()
    timer = threading.Timer(2.0, cluster.back)
    timer.start()
    assert api.node("n1").name == "n1"
    timer.join()


def test_events_are_what_describe_shows(cluster: Cluster, api: Api, kubectl: Kubectl) -> None:
    cluster.add_node("n1")
    api.event(api.node("n1"), "DriverUpgrade", "evicting pods", warning=True)
    assert "DriverUpgrade" in kubectl("describe", "node", "n1").stdout


def test_the_shipped_role_is_enough_and_a_missing_verb_is_named(cluster: Cluster, kubectl: Kubectl) -> None:
    nobody = kubectl.api("nobody-yet")
    with pytest.raises(Forbidden, match="lacks what a roll needs") as caught:
        rbac.require(nobody)
    assert "create pods/eviction" in caught.value.why
    cluster.ensure_namespace("kube-system")
    cluster.ensure_namespace("default")
    kubectl("apply", "-f", str(RBAC))
    group = "rbac.authorization.k8s.io"
    for kind, where in (("ClusterRole", ""), ("Role", "kube-system"), ("Role", "default")):
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": "for-roller", **({"namespace": where} if where else {})},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "roller"}],
            "roleRef": {"apiGroup": group, "kind": kind, "name": "provision-upgrade"},
        }
        kubectl("create", "-f", "-", stdin=binding)
    assert rbac.require(kubectl.api("roller")) == []
    with pytest.raises(Forbidden) as said:
        nobody.node("n1")
    assert (said.value.verb, said.value.resource) == ("get", "nodes")


def test_of_two_holders_at_once_one_gets_the_lease(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.ensure_namespace("kube-system")
    held: list[lease.Held] = []
    refused: list[LeaseHeld] = []

    def take(name: str) -> None:
        try:
            held.append(lease.acquire(kubectl.api(), name, Holder(f"{name}@host")))
        except LeaseHeld as problem:
            refused.append(problem)

    kubectl.config()
    threads = [threading.Thread(target=take, args=(name,)) for name in ("alice", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 1)
    assert refused[0].who == held[0].who
    held[0].check()
    held[0].release()
    again = lease.acquire(kubectl.api(), "carol", Holder("carol@host"))
    assert again.token > held[0].token
    again.release()


def test_a_lease_is_renewed_taken_over_and_fenced(cluster: Cluster, kubectl: Kubectl, api: Api) -> None:
    cluster.ensure_namespace("kube-system")
    sleeper = lease.acquire(api, "r1", Holder("a@a"), duration=2, renew=1e6)
    heir = lease.acquire(api, "r2", Holder("b@b"), wait=30, duration=2, renew=0.3)
    with pytest.raises(LeaseLost):
        sleeper.check()
    time.sleep(3)
    with pytest.raises(LeaseHeld):
        lease.acquire(api, "r3", Holder("c@c"))
    kubectl("-n", "kube-system", "annotate", "lease", "provision-upgrade", "provision.dev/freeze=moving storage")
    with pytest.raises(Frozen, match="frozen") as caught:
        heir.check()
    assert "moving storage" in caught.value.why
    assert "kubectl" in caught.value.why
    kubectl("-n", "kube-system", "annotate", "lease", "provision-upgrade", "provision.dev/freeze-")
    heir.check()
    assert lease.request_abort(api) == "b@b"
    heir.check()
    assert heir.abort.is_set()
    heir.release()
    assert lease.read(api)[0].who == ""


def test_a_killed_run_of_this_machine_is_followed_at_once(cluster: Cluster, kubectl: Kubectl, api: Api) -> None:
    cluster.ensure_namespace("kube-system")
    code = (
        "import sys, time; from pathlib import Path; from provisioner.kube.api import Api\n"
        "from provisioner.kube.proxy import KubectlProxy; from provisioner.upgrade import holder, lease\n"
        "lease.acquire(Api(KubectlProxy(Path(sys.argv[1]))), 'r1', holder.this_process())\n"
        "print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(kubectl.config())], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(LeaseHeld):
        lease.acquire(api, "r2", this_process())
    child.kill()
    child.wait()
    child.stdout.close()
    began = time.monotonic()
    lease.acquire(api, "r2", this_process()).release()
    assert time.monotonic() - began < 10


def test_cordons_of_others_survive_ours(cluster: Cluster, kubectl: Kubectl, api: Api) -> None:
    cluster.add_node("n1")
    assert cordon.cordon(api, "n1", 1).owners == ("upgrade",)
    assert api.node("n1").cordoned_by == "provision-upgrade"
    assert cordon.uncordon(api, "n1", 1).owners == ()
    assert not api.node("n1").unschedulable

    kubectl("cordon", "n1")
    assert cordon.cordon(api, "n1", 1).before == ("person",)
    assert cordon.uncordon(api, "n1", 1).owners == ("person",)
    assert api.node("n1").unschedulable
    kubectl("uncordon", "n1")

    cordon.cordon(api, "n1", 1)
    kubectl("uncordon", "n1")
    kubectl("cordon", "n1")
    assert cordon.uncordon(api, "n1", 1).owners == ("person",), "cordoned again by hand: it is that person's"
    assert api.node("n1").unschedulable


def test_the_record_is_on_the_node_and_fences(cluster: Cluster, kubectl: Kubectl, api: Api) -> None:
    cluster.add_node("n1")
    mine = NodeRecord("h1", "n1", Phase.EVICT, "r2", 7, reason='it\'s "so"\n…')
    record.write(api, mine)
    assert record.of_node(api.node("n1")) == mine
    shown = kubectl.json("get", "node", "n1")["metadata"]["annotations"]["provision.dev/upgrade"]
    assert json.loads(shown)["phase"] == "evicting"
    with pytest.raises(LeaseLost):
        cordon.cordon(api, "n1", 6)
    assert not api.node("n1").unschedulable


def test_a_drain_evicts_gpu_pods_and_holds_budgets(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1", gpus=4)
    cluster.add_pod("plain", "n1", owner=BARE)
    cluster.add_pod("free", "n1", gpus=1, owner=BARE)
    cluster.add_pod("kept", "n1", gpus=1, owner=BARE, labels={"app": "kept"})
    cluster.add_budget("keep", {"app": "kept"}, min_available=1)
    seen: list[Progress] = []
    outcome = drain(on(api, timeout=3, report=seen.append), "gpu-pods", use)
    assert outcome.ended == "timeout"
    assert [blocker.budget for blocker in outcome.last.blockers] == ["default/keep"]
    assert "default/kept is kept by disruption budget default/keep (minAvailable 1" in outcome.last.text
    assert [pod.name for pod in api.pods("n1")] == ["kept", "plain"]
    cluster.client.delete("poddisruptionbudgets", "keep", "default")
    assert drain(on(api), "gpu-pods", use).ok
    assert [pod.name for pod in api.pods("n1")] == ["plain"]
    deleted = [asked for asked in cluster.requests("admin") if asked.verb == "delete"]
    assert not deleted, "nothing is deleted outside the Eviction API"


def test_a_pod_without_controller_and_one_with_a_finalizer_are_named(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.add_pod("bare", "n1", gpus=1)
    cluster.add_pod("stuck", "n1", gpus=1, owner=BARE, annotations={"test/never-ends": ""})
    outcome = drain(on(api, timeout=2), "gpu-pods", use)
    assert outcome.ended == "timeout"
    assert "default/bare has no controller" in outcome.last.text
    assert "default/stuck is ending" in outcome.last.text


def test_daemonsets_are_kept_away_and_come_back(cluster: Cluster, api: Api) -> None:
    cluster.add_node("n1", gpus=2, labels={"nvidia.com/gpu.deploy.dcgm": "true"})
    cluster.add_device_plugin()
    cluster.add_daemonset("nvidia-dcgm", selector={"nvidia.com/gpu.deploy.dcgm": "true"})
    cluster.add_daemonset("logs")
    found = rules.clients(api.pods("n1"), use())
    plan = daemons.pause(api.node("n1"), found)
    assert plan.daemons == ("kube-system/nvidia-dcgm", "kube-system/nvidia-device-plugin-daemonset")
    assert daemons.keep_away(on(api), plan, use, 1).ok
    time.sleep(1)
    assert [pod.controller[1] for pod in api.pods("n1")] == ["logs"], "no new one has come"
    daemons.let_back(api, "n1", 1, plan.remembered)
    assert daemons.wait_back(on(api), plan.remembered).ok
    assert smoke.wait_offered(on(api), {"nvidia.com/gpu": 2}).ok
    assert api.node("n1").taints == ()
    assert api.node("n1").labels["nvidia.com/gpu.deploy.dcgm"] == "true"


def says(answer: tuple[int, str]) -> Callable[[Sequence[str]], tuple[int, str]]:
    return lambda command: answer


def test_a_pod_computes_on_a_cordoned_node(cluster: Cluster, api: Api) -> None:
    machine = Described("id", 1)
    cluster.add_node("n1", machine=machine)
    cordon.cordon(api, "n1", 1)
    for answer, ok in (((1, "RESULT fail WrongNumbers card 0"), False), ((0, "RESULT pass - 1 card computed"), True)):
        machine.runs = says(answer)
        verdict = smoke.compute(api, "n1", smoke.Smoke(), render, guard=lambda: None, timeout=20)
        assert verdict.ok is ok, verdict.text
        assert ok or "WrongNumbers card 0" in verdict.text
        assert api.pods("n1") == []


def test_kubectl_on_a_host_does_the_same(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    """The script that goes to a host, run by this machine's sh: bodies arrive, and failures are typed."""
    cluster.add_node("n1", gpus=1)
    cluster.add_pod("a", "n1", gpus=1, owner=BARE)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    api = Api(HostKubectl(ShellExecutor("h1", env={"PATH": path}), kubectl.config()))
    reason = 'it\'s "so" $(true) `true` \\n %s\n…'
    record.write(api, NodeRecord("h1", "n1", Phase.EVICT, "r", 7, reason=reason))
    found = record.of_node(api.node("n1"))
    assert found is not None
    assert found.reason == reason
    assert drain(on(api), "gpu-pods", use).ok
    with pytest.raises(NotFound):
        api.node("n9")
