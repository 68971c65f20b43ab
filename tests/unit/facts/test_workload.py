"""What runs on a host, read by the real script: what can't be told is never "nothing"."""

from __future__ import annotations

import socket
from pathlib import Path

from provisioner.facts.workload import Workload, WorkloadProbe
from provisioner.model.fact import Fact, Known, Unknown
from tests.unit.facts.shell import ask, put

SYSTEMD = {"/run/systemd/system/x": ""}
INACTIVE = "for u in 1 2 3 4 5; do echo inactive; done; exit 3"


def read(root: Path, ctr: str = "exit 1", systemctl: str = INACTIVE, *, up: bool = True) -> Fact[Workload]:
    put(root, {**SYSTEMD, "/proc/1/comm": "systemd\n"})
    path = root / "run/containerd/containerd.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        if up:
            listener.bind(str(path))
        return ask(WorkloadProbe(), root, {"ctr": ctr, "systemctl": systemctl})


def test_an_idle_host(tmp_path: Path) -> None:
    assert read(tmp_path, up=False) == Known(Workload())


def test_an_active_kubelet_by_its_unit(tmp_path: Path) -> None:
    found = read(tmp_path, systemctl="echo inactive inactive active inactive inactive", up=False)
    assert found == Known(Workload(kubelet="k3s-agent"))


def test_a_systemd_that_does_not_answer_may_run_a_kubelet(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, systemctl="exit 1", up=False), Unknown)


def test_a_containerd_that_hangs_with_containers_makes_it_unknown(tmp_path: Path) -> None:
    put(tmp_path, {"/proc/7/comm": "containerd\n", "/proc/8/comm": "containerd-shim\n"})
    assert isinstance(read(tmp_path), Unknown)


def test_a_dead_socket_holds_no_containers(tmp_path: Path) -> None:
    put(tmp_path, {"/proc/7/comm": "containerd\n"})
    assert read(tmp_path) == Known(Workload())


def test_a_paused_container_is_work_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    ctr = """case "$*" in
*namespaces*) echo k8s.io ;;
*tasks*) printf 'TASK PID STATUS\\na 1 PAUSED\\nb 2 STOPPED\\n' ;;
*) echo '{}' ;;
esac"""
    assert read(tmp_path, ctr) == Known(Workload(containers=("k8s.io/a",)))
