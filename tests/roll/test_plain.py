"""The same roll where there is no cluster: what computes is waited for, and the record lies on the host."""

from __future__ import annotations

import json
from collections.abc import Callable

from provisioner.model.upgrade import Phase
from tests.roll.scene import Scene, loaded


def test_a_plain_host_is_rolled_when_its_process_has_ended(scene: Callable[..., Scene]) -> None:
    made = scene("gpu-m", plain=True)
    host, target, before = made.hosts["gpu-m"], made.target(), made.installations("gpu-m")
    host.card.set(busy=True)
    report = made.roll(during={("phase-progress", "evicting"): host.card.repair})
    assert report.nodes["gpu-m"].phase is Phase.DONE, report.nodes
    assert loaded(host) == target
    assert made.installations("gpu-m") == [*before, target]
    kept = json.loads(host.get("/var/lib/provision/upgrade.json"))
    assert (kept["phase"], kept["target"]) == ("done", target)
    assert host.exec("cat /run/provision/lock").stdout == "", "the host's lock is given back"
    with made.open() as looking:
        assert looking.status().nodes["gpu-m"].phase is Phase.DONE
        again = looking.plan()
    assert again.nodes == ()
    assert "already" in again.left_out["gpu-m"]
