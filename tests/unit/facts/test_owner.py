"""Marks of a GPU Operator and of managed pools, read by the real script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.facts.owner import Ownership, OwnershipProbe
from provisioner.model.fact import Known
from tests.unit.facts.shell import ask, put

MOUNTS = "36 35 0:33 / /run rw - tmpfs tmpfs rw\n"
MOUNTED = MOUNTS + "99 36 0:50 / /run/nvidia/driver rw - overlay overlay rw\n"
VALIDATIONS = "/run/nvidia/validations"


def read(root: Path, files: dict[str, str], commands: dict[str, str] | None = None) -> Ownership:
    put(root, {"/proc/self/mountinfo": MOUNTS, **files})
    found: Any = ask(OwnershipProbe(), root, commands)
    assert isinstance(found, Known), found
    assert isinstance(found.value, Ownership)
    return found.value


def test_a_plain_host(tmp_path: Path) -> None:
    assert read(tmp_path, {}) == Ownership()


def test_a_driver_container(tmp_path: Path) -> None:
    ready = "IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
    found = read(
        tmp_path,
        {
            "/proc/self/mountinfo": MOUNTED.replace("/run/nvidia/driver", f"{tmp_path}/run/nvidia/driver"),
            f"{VALIDATIONS}/driver-ready": ready,
            f"{VALIDATIONS}/.driver-ctr-ready": "",
            "/run/nvidia/nvidia-driver.pid": "4711\n",
            "/proc/4711/comm": "nvidia-driver\n",
        },
    )
    assert len(found.operator_driver) == 4
    assert any("is mounted" in sentence for sentence in found.operator_driver)
    assert not found.operator_seen


@pytest.mark.parametrize("name", ["driver-ready", "host-driver-ready"])
def test_an_operator_with_the_host_s_driver(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, {f"{VALIDATIONS}/{name}": "IS_HOST_DRIVER=true\n"})
    assert found.operator_seen
    assert not found.operator_driver


def test_a_stale_process_file_is_no_driver_container(tmp_path: Path) -> None:
    assert read(tmp_path, {"/run/nvidia/nvidia-driver.pid": "4711\n"}) == Ownership()


def test_a_toolkit_container_counts_while_it_runs(tmp_path: Path) -> None:
    files = {"/usr/local/nvidia/toolkit/nvidia-container-runtime": ""}
    assert read(tmp_path, files) == Ownership()
    assert "process 815 " in read(tmp_path, {"/proc/815/comm": "nvidia-ctk-inst\n"}).operator_toolkit[0]


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["/home/kubernetes/bin/kubelet", "/home/kubernetes/kubelet-config.yaml"], "GKE"),
        (["/etc/eks/bootstrap.sh"], "EKS"),
        (["/opt/azure/vhd-install.complete"], "AKS"),
        (["/home/kubernetes/bin/kubelet"], ""),
        (["/etc/kubernetes/azure.json"], ""),
    ],
)
def test_managed_pools(tmp_path: Path, files: list[str], name: str) -> None:
    found = read(tmp_path, dict.fromkeys(files, ""))
    assert found.pool_name == name
    assert bool(found.pool) == bool(name)
