"""provision-nvidia-devices: which device files it asks for, with the kernel's own numbers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.selftest.machine import TEMPLATES, Machine

DEVICES = """Character devices:
  1 mem
195 nvidia
195 nvidiactl
511 nvidia-uvm

Block devices:
195 nvidia-uvm
"""


class Host(Machine):
    """Two cards with minors 0 and 1, loaded modules, no device file; mknod notes what it was asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "dev/nvidia-uvm").unlink()
        self.write("proc/devices", DEVICES)
        for minor in (0, 1):
            self.write(
                f"proc/driver/nvidia/gpus/0000:0{minor}:00.0/information", f"Model: A\nDevice Minor: \t {minor}\n"
            )
        self.asked = root / "asked"
        for command in ("mknod", "chown", "nvidia-modprobe", "modprobe"):
            self.command(command, f'echo "{command} $*" >>{self.asked}')
        for tool in ("mkdir", "chown"):
            if not (self.tools / tool).exists():
                self.link(tool)

    def create(self) -> subprocess.CompletedProcess[str]:
        options = ("--dev", self.root / "dev", "--proc", self.root / "proc", "--sys", self.root / "sys")
        return subprocess.run(
            [shutil.which("dash") or "sh", TEMPLATES / "modules/provision-nvidia-devices", *options],
            env={"PATH": f"{self.bin}:{self.tools}"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def calls(self, command: str) -> list[str]:
        """What this command was called with, our folder left out."""
        lines = self.asked.read_text().replace(f"{self.root}/dev/", "").splitlines() if self.asked.exists() else []
        return [line.removeprefix(command + " ") for line in lines if line.startswith(command + " ")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_all_device_files_with_the_kernels_numbers(host: Host) -> None:
    assert host.create().returncode == 0
    assert host.calls("mknod") == [
        "-m 666 nvidia0 c 195 0",
        "-m 666 nvidia1 c 195 1",
        "-m 666 nvidiactl c 195 255",
        "-m 666 nvidia-uvm c 511 0",
        "-m 666 nvidia-uvm-tools c 511 1",
    ]


def test_nvidia_modprobe_is_asked_first_where_the_host_has_it(host: Host) -> None:
    host.create()
    assert host.calls("nvidia-modprobe") == ["-c 0", "-c 1", "-u -c=0"]
    (host.bin / "nvidia-modprobe").unlink()
    assert host.create().returncode == 0


def test_device_of_an_earlier_major_is_made_again(host: Host) -> None:
    (host.root / "dev/nvidia-uvm").symlink_to("/dev/null")
    host.create()
    assert "-m 666 nvidia-uvm c 511 0" in host.calls("mknod")


def test_the_drivers_own_mode_and_owner(host: Host) -> None:
    host.write(
        "proc/driver/nvidia/params", "DeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\nModifyDeviceFiles: 1\n"
    )
    host.create()
    assert host.calls("mknod")[0] == "-m 660 nvidia0 c 195 0"
    assert host.calls("chown")[0] == "0:44 nvidia0"


def test_driver_that_forbids_device_files_is_obeyed(host: Host) -> None:
    host.write("proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n")
    assert host.create().returncode == 0
    assert host.calls("mknod") == []


def test_without_the_module_nothing_is_done(host: Host) -> None:
    shutil.rmtree(host.root / "sys/module/nvidia")
    assert host.create().returncode == 0
    assert not host.asked.exists()


def test_uvm_that_cannot_be_loaded_is_an_error(host: Host) -> None:
    shutil.rmtree(host.root / "sys/module/nvidia_uvm")
    host.write("proc/devices", DEVICES.replace("511 nvidia-uvm\n", ""))
    done = host.create()
    assert (done.returncode, "nvidia_uvm is not loaded" in done.stderr) == (1, True)
    assert host.calls("modprobe") == ["nvidia-uvm"]


def test_links_by_number_for_what_is_there(host: Host) -> None:
    (host.root / "dev/nvidia-caps").mkdir()
    (host.root / "dev/nvidia-caps/nvidia-cap1").symlink_to("/dev/null")
    host.create()
    assert (host.root / "dev/char/1:3").readlink() == Path("../nvidia-caps/nvidia-cap1")
