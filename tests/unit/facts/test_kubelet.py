"""The kubelet and its cgroup driver, read by the real script."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.facts.kubelet import Kubelet, KubeletProbe
from provisioner.model.fact import Absent, Fact, Known, Unknown
from tests.unit.facts.shell import ask, put

UNIT = {"/lib/systemd/system/kubelet.service": ""}
QUIET = {"systemctl": "exit 3"}


def read(root: Path, commands: dict[str, str] | None = None) -> Fact[Kubelet]:
    return ask(KubeletProbe(), root, {**QUIET, **(commands or {})})


def test_no_kubelet(tmp_path: Path) -> None:
    assert read(tmp_path) == Absent()


def test_kubeadm_writes_the_driver_into_the_configuration(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\ncgroupDriver: systemd\n"})
    config = f"{tmp_path}/var/lib/kubelet/config.yaml"
    found = read(tmp_path, {"systemctl": '[ "$3" = kubelet ]'})
    assert isinstance(found, Known)
    assert (found.value.unit, found.value.active) == ("kubelet", True)
    assert (found.value.cgroup_driver, found.value.source) == ("systemd", config)


def test_json_configuration(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": '{\n  "cgroupDriver": "cgroupfs",\n  "x": 1\n}\n'})
    found = read(tmp_path)
    assert isinstance(found, Known)
    assert found.value.cgroup_driver == "cgroupfs"


def test_a_flag_of_the_running_kubelet_beats_the_configuration(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": "cgroupDriver: systemd\n"})
    put(tmp_path, {"/proc/77/cmdline": b"/usr/bin/kubelet\0--root-dir\0/data/kubelet\0--cgroup-driver=cgroupfs\0"})
    put(tmp_path, {"/proc/77/comm": "kubelet\n"})
    found = read(tmp_path)
    assert found == Known(Kubelet("kubelet", False, "cgroupfs", "flag", "/data/kubelet"))


def test_flags_that_kubeadm_left_and_a_drop_in_folder(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": "cgroupDriver: cgroupfs\n"})
    put(tmp_path, {"/conf.d/20-site.conf": "cgroupDriver: systemd\n"})
    put(
        tmp_path,
        {"/var/lib/kubelet/kubeadm-flags.env": f'KUBELET_KUBEADM_ARGS="--config-dir={tmp_path}/conf.d -v=2"\n'},
    )
    found = read(tmp_path)
    assert isinstance(found, Known)
    assert (found.value.cgroup_driver, found.value.source) == ("systemd", f"{tmp_path}/conf.d/20-site.conf")


def test_nothing_said_decides_nothing(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"})
    found = read(tmp_path)
    assert isinstance(found, Known)
    assert found.value.cgroup_driver == ""


@pytest.mark.parametrize(("unit", "own"), [("k3s-agent", True), ("rke2-agent", True), ("kubelet", False)])
def test_kinds(tmp_path: Path, unit: str, own: bool) -> None:
    put(tmp_path, {f"/etc/systemd/system/{unit}.service": ""})
    found = read(tmp_path)
    assert isinstance(found, Known)
    assert found.value.unit == unit
    assert found.value.generates_containerd_config is own


def test_a_driver_that_does_not_exist_is_unknown(tmp_path: Path) -> None:
    put(tmp_path, {**UNIT, "/var/lib/kubelet/config.yaml": "cgroupDriver: cgroupv2\n"})
    assert isinstance(read(tmp_path), Unknown)
