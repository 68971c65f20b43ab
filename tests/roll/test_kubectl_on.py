"""kubectl on a host of the inventory, which is a node of the roll itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from provisioner.model.upgrade import Phase
from tests.roll.scene import ACCOUNT, OPTIONS, Scene
from tests.roll.tunnel import KUBECONFIG, Tunnel


def test_the_host_that_kubectl_runs_on_comes_last_and_may_restart(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-k", "gpu-m")
    host, target = made.hosts["gpu-k"], made.target()
    made.write(target)
    text = made.site.inventory.read_text()
    there = text.replace(
        f'[cluster]\nkubeconfig = "{made.kubectl.config(ACCOUNT)}"',
        f'[cluster]\nkubectl_on = "gpu-k"\nkubeconfig = "{KUBECONFIG}"',
    )
    assert there != text
    assert not Path(KUBECONFIG).exists(), "there is no way to this cluster from here"
    made.site.inventory.write_text(there)
    with Tunnel(made, host):
        with made.open() as roller:
            plan = roller.plan()
        assert [node.host for node in plan.nodes] == ["gpu-m", "gpu-k"], (plan.refused, plan.left_out)
        made.cluster.add_pod("alone", "gpu-k", gpus=1, annotations={"provision.dev/evict": "true"})
        report = made.roll(replace(OPTIONS, reboot="always"), limit="gpu-k")
    record = report.nodes["gpu-k"]
    assert record.phase is Phase.DONE, (record, report.stopped)
    assert record.boot, "it was restarted"
    made.check_clean("gpu-k", target)
    made.check_deletions()
    evicted = [each.code for each in made.cluster.requests(user=ACCOUNT) if each.resource == "pods/eviction"]
    assert set(evicted) == {201}
