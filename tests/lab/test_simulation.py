"""The lab itself: the simulated cards behave as the README says, so that other tests can rely on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.lab import Lab, LabHost

VENDOR = """\
Types: deb
URIs: file:/srv/lab-repo/nvidia
Suites: debian12
Components: main broken
Signed-By: /usr/share/keyrings/lab-debian.asc
"""
PARTS = (
    "nvidia-open nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-kernel-support firmware-nvidia-gsp "
    "nvidia-modprobe libcuda1 libnvidia-ml1 nvidia-persistenced"
)
INIT = "python3 -c 'import ctypes; print(ctypes.CDLL(\"libcuda.so.1\").cuInit(0))'"


def install(host: LabHost, version: str) -> None:
    """Every package of the driver at one version, as a careful person would."""
    named = " ".join(f"{part}={version}-1" for part in PARTS.split())
    host.exec(f"apt-get -qq install -y --allow-downgrades {named}", check=True)


def pid1_start(host: LabHost) -> str:
    return host.exec("cut -d' ' -f22 /proc/1/stat").stdout.strip()


@pytest.fixture(scope="module")
def driven(lab: Lab) -> LabHost:
    """gpu-x with the driver of 570.172.08 installed, shared by the tests of this module."""
    lab.reset("gpu-x")
    host = lab.host("gpu-x")
    host.put("/etc/apt/sources.list.d/vendor.sources", VENDOR)
    host.exec("apt-get -qq update", check=True)
    install(host, "570.172.08")
    host.exec("printf 'nvidia\\nnvidia-uvm\\n' >/etc/modules-load.d/nvidia.conf")
    return host


@pytest.fixture
def loaded(driven: LabHost) -> Iterator[LabHost]:
    """The same with its modules loaded; healthy again afterwards."""
    driven.exec("modprobe nvidia-uvm", check=True)
    yield driven
    driven.card.repair()


def test_a_reboot_loses_modules_nodes_and_kernel_log_and_loads_what_modules_load_names(loaded: LabHost) -> None:
    loaded.kernel_log("NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.")
    assert "Xid" in loaded.exec("journalctl -b -o cat -t kernel").stdout
    loaded.exec("modprobe nvidia-modeset && nvidia-modprobe -u -c=0 && test -c /dev/nvidia-uvm", check=True)
    before = pid1_start(loaded)
    loaded.reboot()
    assert pid1_start(loaded) != before
    modules = loaded.exec("cd /sys/module && ls -d nvidia*").stdout.split()
    assert modules == ["nvidia", "nvidia_uvm"]
    assert loaded.exec("test -e /dev/nvidia-uvm").returncode == 1
    assert "Xid" not in loaded.exec("journalctl -b -o cat -t kernel").stdout
    assert loaded.exec("cat /sys/module/nvidia/version").stdout.strip() == "570.172.08"


def test_a_host_reboots_by_itself_unless_told_not_to(loaded: LabHost) -> None:
    before = pid1_start(loaded)
    loaded.exec("systemctl reboot")
    end = time.monotonic() + 30
    while pid1_start(loaded) in ("", before) and time.monotonic() < end:
        time.sleep(0.3)
    loaded.wait()
    assert pid1_start(loaded) != before
    loaded.never_come_back()
    loaded.exec("systemctl reboot")
    end = time.monotonic() + 30
    while loaded.running() and time.monotonic() < end:
        time.sleep(0.3)
    assert not loaded.running()
    loaded.start()


def test_ssh_is_counted_by_sshd_itself(loaded: LabHost) -> None:
    loaded.clear_sshd_log()
    assert loaded.ssh("sudo -n id -u").stdout == "0\n"
    assert loaded.ssh("sudo -n true", user="pw").returncode == 1
    assert (loaded.connections(), loaded.executions()) == (2, 2)


def test_a_held_card_keeps_the_module_in(loaded: LabHost) -> None:
    loaded.exec("systemctl stop nvidia-persistenced")
    loaded.card.set(busy=True)
    assert loaded.exec("rmmod nvidia_uvm nvidia").returncode == 1
    assert loaded.exec("ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c /dev/nvidia0").stdout.strip() == "1"
    loaded.card.set(busy=False)
    assert loaded.exec("modprobe -r nvidia_uvm; rmmod nvidia").returncode == 0
    assert loaded.exec("test -e /proc/driver/nvidia").returncode == 1


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        ({}, 0, "GPU 1: NVIDIA H100 PCIe"),
        ({"smi": "exit9"}, 9, "couldn't communicate with the NVIDIA driver"),
        ({"smi": "exit14"}, 14, "infoROM is corrupted"),
        ({"lost": (1,)}, 15, "GPU is lost"),
        ({"count": 0}, 6, "No devices were found"),
        ({"smi": "hang"}, 137, ""),
    ],
)
def test_nvidia_smi_ends_as_the_real_one(loaded: LabHost, state: dict[str, object], code: int, text: str) -> None:
    loaded.card.set(**state)
    done = loaded.exec("timeout -k 0.5 0.5 nvidia-smi -L" if state.get("smi") == "hang" else "nvidia-smi -L")
    assert done.returncode == code
    assert text in done.stdout


@pytest.mark.parametrize(("state", "answer"), [("ok", "0"), ("error:999", "999"), ("error:802", "802")])
def test_the_driver_api_answers_as_told(loaded: LabHost, state: str, answer: str) -> None:
    loaded.card.set(cuda=state)
    assert loaded.exec(INIT).stdout.strip() == answer


def test_another_library_than_the_loaded_module(loaded: LabHost) -> None:
    install(loaded, "570.158.01")
    done = loaded.exec("nvidia-smi")
    assert (done.returncode, loaded.exec(INIT).stdout.strip()) == (18, "803")
    assert "Driver/library version mismatch" in done.stdout
    install(loaded, "570.172.08")
    assert loaded.exec(INIT).stdout.strip() == "0"


def test_apt_alone_mixes_versions_and_a_release_fails_half_way(pristine: Callable[[str], LabHost]) -> None:
    host = pristine("gpu-x")
    host.put("/etc/apt/sources.list.d/vendor.sources", VENDOR)
    host.exec("apt-get -qq update", check=True)
    planned = host.exec("apt-get -s install nvidia-open=570.172.08-1", check=True).stdout
    assert "Inst nvidia-open (570.172.08-1" in planned
    assert "Inst libcuda1 (580.99.99-1" in planned
    refused = host.exec("apt-get -s install nvidia-container-toolkit=1.17.8-1")
    assert "nvidia-container-toolkit-base (= 1.17.8-1) but 1.18.0-1" in refused.stdout
    assert host.exec("apt-get -qq install -y nvidia-open").returncode == 100
    assert "nvidia-kernel-open-dkms" in host.exec("dpkg --audit").stdout


def test_a_repository_with_a_strangers_signature_is_refused(pristine: Callable[[str], LabHost]) -> None:
    host = pristine("gpu-y")
    host.put("/etc/apt/sources.list.d/vendor.sources", VENDOR.replace("debian12", "debian13"))
    assert host.exec("apt-get update").returncode == 0
    strange = VENDOR.replace("/nvidia", "/nvidia-strange-key").replace("debian12", "debian13")
    host.put("/etc/apt/sources.list.d/vendor.sources", strange)
    refused = host.exec("apt-get update")
    assert refused.returncode == 100
    assert "nvidia-strange-key" in refused.stderr
