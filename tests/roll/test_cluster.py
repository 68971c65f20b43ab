"""What others want of a node: budgets, cordons, taints, pods that never end. None of it is overruled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from provisioner.model.upgrade import Phase
from tests.roll.scene import OPTIONS, Scene, loaded


def test_pods_that_may_not_go_leave_the_node_as_it_was(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k")
    source, before = loaded(made.hosts["gpu-k"]), made.installations("gpu-k")
    made.cluster.add_replicaset("kept", 1, gpus=1)
    made.cluster.add_budget("kept", {"app": "kept"}, min_available=1)
    owner = made.cluster.client.get("replicasets", "kept", "default")["metadata"]
    by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": owner["uid"], "controller": True}
    made.cluster.add_pod("endless", "gpu-k", gpus=1, owner=by, finalizers=["example.org/never"])
    report = made.roll(replace(OPTIONS, drain_timeout=5.0))
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.FAILED, record
    assert "disruption budget default/kept" in record.reason
    assert "kept by finalizer example.org/never" in record.reason
    made.check_deletions()
    assert made.cluster.pod("endless")["metadata"]["finalizers"] == ["example.org/never"]
    made.check_clean("gpu-k", source)
    assert made.installations("gpu-k") == before
    assert made.record("gpu-k")["phase"] == "failed"


def test_cordons_and_taints_of_others_stay(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k", "gpu-m")
    target = made.target()
    made.kubectl("cordon", "gpu-m")
    made.kubectl("taint", "node", "gpu-k", "team=ml:PreferNoSchedule")

    def cordon_anew() -> None:
        made.kubectl("uncordon", "gpu-k")
        made.kubectl("cordon", "gpu-k")

    with made.open(during={("phase-done", "stopping-clients"): cordon_anew}) as roller:
        plan = roller.prepare(roller.plan())
        assert plan.left_out == {"gpu-m": "cordoned by person"}
        report = roller.run(plan)
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.DONE, record
    assert "stays cordoned for person" in record.reason
    assert made.cordoned("gpu-k")
    assert made.cordoned("gpu-m")
    assert "team" in made.taints("gpu-k")
    assert "provision.dev/driver-upgrade" not in made.taints("gpu-k")
    assert loaded(made.hosts["gpu-k"]) == target
