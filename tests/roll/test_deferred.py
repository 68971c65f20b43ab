"""What `apply` left for a drained node: a restart of containerd, and of the host itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import pytest

from tests.lab import LabHost
from tests.lab.containerdhosts import ROOTFS, rootfs
from tests.lab.site import book
from tests.lab.test_faults_disruption import REBOOT
from tests.roll.scene import ACCOUNT, Scene, inventory, loaded

MARK = "/root/restarted"
BOOK = book('task = "containerd"', stage="containerd") + book(
    f'task = "acme.restart-once"\nmark = "{MARK}"', stage="restart"
)
TRAIN = (
    "ctr -n k8s.io run -d --mount type=bind,src=/usr,dst=/usr,options=rbind:ro "
    f"--rootfs {ROOTFS} train"
    " /bin/sh -c 'trap exit TERM; sleep 9999 & wait'"
)


def main_pid(host: LabHost) -> str:
    return host.exec("systemctl show -P MainPID containerd").stdout.strip()


@pytest.fixture
def busy() -> Iterator[Callable[[LabHost], None]]:
    """Makes a host look like a node at work to who looks from the host: an active kubelet, a pod's container."""
    made: list[LabHost] = []

    def make(host: LabHost) -> None:
        made.append(host)
        rootfs(host)
        host.exec(
            f"{TRAIN} && systemd-run -q --unit=kubelet sleep infinity"
            " && echo '# by a person' >>/etc/containerd/config.toml",
            check=True,
        )

    yield make
    for host in made:
        host.exec(
            f"systemctl stop kubelet; ctr -n k8s.io task rm -f train; ctr -n k8s.io container rm train; rm -f {MARK}"
        )


def test_restarts_that_apply_deferred_are_done_node_by_node(
    scene: Callable[..., Scene], busy: Callable[[LabHost], None]
) -> None:
    made = scene("gpu-k", "gpu-m")
    hosts, version = made.hosts, loaded(made.hosts["gpu-k"])
    made.write(version)
    (made.site.folder / "tasks").mkdir()
    (made.site.folder / "tasks" / "restart.py").write_text(REBOOT)
    text = inventory(version, cluster=str(made.kubectl.config(ACCOUNT)))
    made.site.write(*hosts.values(), text=text, playbook=BOOK)
    made.cluster.add_replicaset("train", 2, gpus=1)
    for host in hosts.values():
        busy(host)
    hosts["gpu-m"].exec(f"touch {MARK}")  # only gpu-k wants a reboot
    daemons = {name: main_pid(host) for name, host in hosts.items()}

    applied = made.site.json("apply", "--yes")
    waits = {name: [each["deferred"] for each in applied["hosts"][name]["waiting"]] for name in ("gpu-k", "gpu-m")}
    assert (applied["exit_code"], len(waits["gpu-k"]), len(waits["gpu-m"])) == (0, 2, 1), applied
    assert "1 container (k8s.io/train) would be hurt: drain the node first" in waits["gpu-m"][0]["reason"]
    assert "needs a reboot, and kubelet is active" in waits["gpu-k"][1]["reason"]
    for name, found in waits.items():
        command = f"provision upgrade-driver {made.site.inventory} --deferred --limit {name}"
        assert {each["command"] for each in found} == {command}
    assert {name: main_pid(host) for name, host in hosts.items()} == daemons, "nothing was restarted"

    done = made.site.json("upgrade-driver", "--deferred", "--yes")
    assert done["exit_code"] == 0, done
    assert {name: (each["phase"], each["kind"]) for name, each in done["nodes"].items()} == dict.fromkeys(
        hosts, ("done", "deferred")
    )
    assert hosts["gpu-k"].exec(f"test -s {MARK}").returncode == 0, "it was restarted"
    assert main_pid(hosts["gpu-m"]) != daemons["gpu-m"]
    patched = [each.name for each in made.cluster.requests(user=ACCOUNT, verb="patch") if each.resource == "nodes"]
    assert [name for name, _ in groupby(patched)] == ["gpu-k", "gpu-m"], "one is done before the next is begun"
    evicted = [each for each in made.cluster.requests(user=ACCOUNT) if each.resource == "pods/eviction"]
    assert len(evicted) >= 2
    tested = [each for each in made.cluster.requests(user=ACCOUNT, verb="create") if each.resource == "pods"]
    assert len(tested) == 2, "on each node a pod computes before it is uncordoned"
    made.check_deletions()
    assert made.site.run("plan", "--detailed-exitcode").returncode == 0
    for name in hosts:
        made.check_clean(name, version)
