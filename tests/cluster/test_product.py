"""The product's talk with the cluster, through its own kubectl calls and the credentials of its own RBAC file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pytest

from provisioner.errors import Forbidden, LeaseHeld, LeaseLost
from provisioner.kube import rbac
from provisioner.kube.api import Api
from provisioner.upgrade import daemons, drain, lease, smoke
from provisioner.upgrade.cordon import cordon, uncordon
from provisioner.upgrade.holder import Holder
from provisioner.upgrade.pods import GpuUse
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.cluster.machine import Described

TEMPLATES = Path(__file__).parents[2] / "templates"
ACCOUNT = "system:serviceaccount:kube-system:provision-upgrade"


def render(name: str, values: Mapping[str, Any]) -> str:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined)
    return environment.get_template(name).render(**values)


@pytest.fixture
def api(kubectl: Kubectl) -> Api:
    """As the service account of templates/rbac, which has just been applied."""
    kubectl("apply", "-f", str(TEMPLATES / "rbac" / "provision-upgrade.yaml"))
    return kubectl.api(ACCOUNT, patience=20)


def test_the_rbac_file_gives_all_that_a_roll_needs_and_a_missing_verb_is_named(api: Api, kubectl: Kubectl) -> None:
    assert rbac.missing(api) == []
    remove = '[{"op":"replace","path":"/rules/2/verbs","value":["get"]}]'
    kubectl("patch", "clusterrole", "provision-upgrade", "--type=json", "-p", remove)
    with pytest.raises(Forbidden) as refused:
        rbac.require(api)
    assert refused.value.why.startswith("create pods/eviction")


def test_a_cordon_of_somebody_else_outlives_ours(api: Api, cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    cluster.add_node("gpu-b")
    kubectl("cordon", "gpu-b")
    assert cordon(api, "gpu-a", 1).before == ()
    assert cordon(api, "gpu-b", 1).before == ("person",)
    for name in ("gpu-a", "gpu-b"):
        uncordon(api, name, 1)
    assert [node.unschedulable for node in api.nodes()] == [False, True]


def test_the_second_operator_is_told_and_the_first_is_fenced_after_a_takeover(api: Api) -> None:
    held = lease.acquire(api, "run-1", Holder("ann@laptop"), renew=60)
    with pytest.raises(LeaseHeld, match="ann@laptop"):
        lease.acquire(api, "run-2", Holder("bob@desk"), renew=60)
    held.check()
    raw = api.get(lease.LEASE)
    raw["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    api.replace(lease.LEASE, raw)
    later = lease.acquire(api, "run-2", Holder("bob@desk"), renew=60)
    assert later.token > held.token
    with pytest.raises(LeaseLost):
        held.check()
    later.release()


def test_a_drain_names_the_budget_and_goes_on_when_it_allows(api: Api, cluster: Cluster) -> None:
    cluster.add_node("gpu-a", gpus=2)
    cluster.add_replicaset("train", 1, gpus=1)
    cluster.add_pod("web", "gpu-a")
    cordon(api, "gpu-a", 1)
    cluster.add_budget("keep", {"app": "train"}, min_available=1)
    on = drain.Waiting(api, "gpu-a", 2.0, guard=lambda: None)
    outcome = drain.drain(on, "gpu-pods", GpuUse)
    assert (outcome.ended, [each.budget for each in outcome.last.blockers]) == ("timeout", ["default/keep"])
    cluster.client.delete("poddisruptionbudgets", "keep", "default")
    assert drain.drain(on, "gpu-pods", GpuUse).ok
    assert [pod["metadata"]["name"] for pod in cluster.pods(node="gpu-a")] == ["web"]
    assert cluster.requests(user=ACCOUNT, verb="delete") == []


def test_the_device_plugin_is_kept_away_and_comes_back(api: Api, cluster: Cluster) -> None:
    machine = cluster.add_node("gpu-a", gpus=2)
    assert isinstance(machine, Described)
    cluster.add_device_plugin()
    on = drain.Waiting(api, "gpu-a", 15.0, guard=lambda: None)
    plan = daemons.pause(api.node("gpu-a"), tuple(api.pods(node="gpu-a")))
    assert daemons.keep_away(on, plan, GpuUse, 1).ok
    assert api.pods(node="gpu-a") == []
    machine.count = 4
    daemons.let_back(api, "gpu-a", 1, plan.remembered)
    assert daemons.wait_back(on, plan.remembered).ok
    assert smoke.wait_offered(on, {"nvidia.com/gpu": 4}).ok


@pytest.mark.parametrize(("code", "said"), [(0, "RESULT pass - 1 card"), (1, "RESULT fail wrong numbers")])
def test_a_pod_computes_on_a_cordoned_node(api: Api, cluster: Cluster, code: int, said: str) -> None:
    cluster.add_node("gpu-a", machine=Described("id", 1, runs=lambda command: (code, said)))
    cordon(api, "gpu-a", 1)
    verdict = smoke.compute(api, "gpu-a", smoke.Smoke(), render, guard=lambda: None)
    assert verdict.ok is (code == 0), verdict.text
    assert cluster.pods("kube-system") == []


def test_an_api_that_was_away_is_waited_for(api: Api, cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.add_node("gpu-a")
    api.event(api.node("gpu-a"), "DriverUpgrade", "begun")
    assert "begun" in kubectl("describe", "node", "gpu-a").stdout
    cluster.fail_for(1.5)
    assert api.node("gpu-a").ready
    assert json.loads(kubectl("get", "node", "gpu-a", "-o", "json").stdout)["metadata"]["name"] == "gpu-a"
