"""A whole roll by the command line, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable

from tests.roll.scene import ACCOUNT, Scene, loaded

HOSTS = ("gpu-k", "gpu-l", "gpu-m")


def test_one_node_after_the_other_and_nothing_is_left(scene: Callable[..., Scene]) -> None:
    made = scene(*HOSTS)
    target = made.target()
    made.write(loaded(made.hosts["gpu-k"]))  # --to moves it
    made.cluster.add_replicaset("train", 3, gpus=1)
    made.cluster.add_budget("train", {"app": "train"}, min_available=2)
    made.cluster.add_pod("web", "gpu-l")

    done = made.site.json("upgrade-driver", "--to", target, "--one-at-a-time", "--yes")
    assert done["exit_code"] == 0, done
    assert {name: record["phase"] for name, record in done["nodes"].items()} == dict.fromkeys(HOSTS, "done")
    for name in HOSTS:
        made.check_clean(name, target)
        assert made.installations(name)[-1] == target
    made.check_deletions()
    evictions = [each for each in made.cluster.requests(user=ACCOUNT) if each.resource == "pods/eviction"]
    assert {each.code for each in evictions} <= {201, 429}, "a budget answers 429, and is asked again"
    assert made.cluster.pod("web")["status"]["phase"] == "Running", "a pod without cards stays"
    assert f'driver = "{target}"   # moved by --to' in made.site.inventory.read_text()

    told = made.site.json("upgrade-driver", "--status")
    assert {name: record["phase"] for name, record in told["nodes"].items()} == dict.fromkeys(HOSTS, "done")
    assert told["holder"] is None
    events = made.kubectl.json("get", "events")["items"]
    assert {"DriverUpgradeStarted", "DriverUpgradeDone"} <= {event["reason"] for event in events}

    drift = made.site.run("drift")
    assert drift.returncode == 0, drift.stdout + drift.stderr
    before = made.installations("gpu-k")
    again = made.site.json("upgrade-driver", "--to", target, "--yes")
    assert (again["exit_code"], again["nodes"]) == (0, {})
    assert made.installations("gpu-k") == before
    assert loaded(made.hosts["gpu-k"]) == target
