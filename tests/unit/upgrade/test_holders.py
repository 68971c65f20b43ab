"""Who holds the cards: from /proc/PID/cgroup to a pod's name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provisioner.upgrade.holders import Held, Holder, LoadedModule, Place, held, look, place
from tests.unit.upgrade.machine import FENCE, Machine

UID = "5f0c2b1e-8a3d-4c5b-9f00-0123456789ab"
SYSTEMD = UID.replace("-", "_")
ID = "c0ffee00" * 8


@pytest.mark.parametrize(
    ("path", "pod", "container", "unit"),
    [
        # cgroup v2, systemd driver, containerd
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{ID}.scope",
            UID,
            ID,
            "",
        ),
        # the guaranteed class has no slice of its own
        (f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/cri-containerd-{ID}.scope", UID, ID, ""),
        # cgroupfs driver, both versions
        (f"/kubepods/besteffort/pod{UID}/{ID}", UID, ID, ""),
        (f"/kubepods/pod{UID}/{ID}", UID, ID, ""),
        # CRI-O
        (f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{ID}.scope", UID, ID, ""),
        # kubelet on systemd, containerd without SystemdCgroup
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD}.slice:cri-containerd:{ID}",
            UID,
            ID,
            "",
        ),
        # a container with a cgroup tree of its own inside
        (f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/cri-containerd-{ID}.scope/init.scope", UID, "", ""),
        # k3s in a container, a static pod whose uid is a hash
        (f"/k3s/kubepods/pod{'ab' * 16}/{ID}", "ab" * 16, ID, ""),
        (f"/docker/{ID}", "", ID, ""),
        (f"/system.slice/docker-{ID}.scope", "", ID, ""),
        ("/system.slice/nvidia-persistenced.service", "", "", "nvidia-persistenced.service"),
        (f"/docker/{ID}/system.slice/nvidia-dcgm.service", "", "", "nvidia-dcgm.service"),
        ("/user.slice/user-1000.slice/session-3.scope", "", "", "session-3.scope"),
        ("/", "", "", ""),
        ("/kubepods.slice/kubepods-podium.slice/x.service", "", "", "x.service"),
    ],
)
def test_place(path: str, pod: str, container: str, unit: str) -> None:
    assert place(path) == Place(pod, container, unit)


class TestText:
    def test_a_pod_is_named_where_its_uid_is_known(self) -> None:
        holder = Holder(4711, "python3", "python3 train.py", ("/dev/nvidia0",), Place(UID, ID))
        found = Held((holder,))
        assert found.text({UID: "default/train"}) == "held by 4711 python3 train.py of pod default/train"
        assert found.text() == f"held by 4711 python3 train.py of pod {UID}"
        assert found.pods == {UID}

    def test_daemons_of_the_driver_are_no_workload(self) -> None:
        daemon = Holder(1, "nvidia-persiste")
        exporter = Holder(2, "exporter", place=Place(unit="nvidia_gpu_exporter.service"))
        person = Holder(3, "python3")
        assert Held((daemon, exporter, person)).workload == (person,)

    def test_nothing_held(self) -> None:
        modules = {"nvidia": LoadedModule("nvidia", 1, "580.95.05", ("nvidia_uvm",))}
        assert Held(modules=modules).text() == ""
        assert Held(modules=modules).driver == "580.95.05"


def test_a_process_that_holds_a_card(tmp_path: Path) -> None:
    """By descriptor or by mapping; what stands behind its first words may be a secret and stays on the host."""
    machine = Machine(tmp_path)
    machine.module("nvidia", version="580.95.05", refcnt=1)
    one = tmp_path / "proc/4711"
    (one / "fd").mkdir(parents=True)
    os.symlink("/dev/nvidia0", one / "fd/3")
    os.symlink("/dev/nvidia0", one / "fd/4")
    os.symlink("/dev/nvidia-uvm", one / "fd/5")
    os.symlink("/dev/null", one / "fd/6")
    two = tmp_path / "proc/4712"
    (two / "fd").mkdir(parents=True)
    (two / "maps").write_text("7f00-7f01 rw-s 00000000 00:05 1 /dev/nvidiactl\n")
    three = tmp_path / "proc/4713"
    (three / "fd").mkdir(parents=True)
    os.symlink("/dev/null", three / "fd/3")
    rows = machine.run_body("holding")
    assert rows == ["4711 /dev/nvidia0 /dev/nvidia-uvm", "4712"]


def test_commands_without_their_options(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for pid, words, shown in (
        (1, ("/usr/bin/python3", "train.py", "--token=s3cret"), "python3 train.py"),
        (2, ("serve", "API_KEY=s3cret"), "serve"),
        (3, ("sleep", "600", "700", "800"), "sleep 600 700"),
    ):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        assert machine.run_body(f"command_of {pid}") == [shown]


def test_rows() -> None:
    found = held(
        [
            ("holder", "4711", "python3", "python3 train.py", "/dev/nvidia0 /dev/nvidiactl"),
            ("cgroup", "4711", f"/kubepods/pod{UID}/{ID}"),
            ("module", "nvidia", "3", "580.95.05", "nvidia_uvm nvidia_modeset "),
            ("module", "gdrdrv", "", "", ""),
        ]
    )
    assert found.processes == (
        Holder(4711, "python3", "python3 train.py", ("/dev/nvidia0", "/dev/nvidiactl"), Place(UID, ID)),
    )
    assert found.modules["nvidia"].holders == ("nvidia_uvm", "nvidia_modeset")
    assert found.modules["gdrdrv"].refcnt is None


def test_an_idle_host(tmp_path: Path) -> None:
    found = Machine(tmp_path).do(look(FENCE))
    assert found == Held()
