"""Cards on the bus, the loaded driver, device files: text of a host in, facts out."""

from __future__ import annotations

import pytest

from provisioner.facts.gpu import DeviceFile, DeviceFilesProbe, DriverProcProbe, PciProbe
from provisioner.model.fact import Absent, Known, Output, Unknown

PCI = b"""\
0000:41:00.0 0x2331 0x030200 nvidia 8 16 physical de103123 0x0000000080000000-0x0000000080ffffff 0x0-0x0
0000:42:00.0 0x2331 0x030200 - 255 16 physical ffffffff 0x0000000000000000-0x0000000000000000
0000:42:00.4 0x2331 0x030200 - 0 0 virtual de103123
0000:c1:00.0 0x22a3 0x068000 nvidia 2 2 physical -
"""


def test_cards_switches_and_virtual_functions() -> None:
    first, second, virtual, switch = PciProbe().parse(Output(0, PCI))
    assert [device.is_card for device in (first, second, virtual, switch)] == [True, True, False, False]
    assert switch.is_switch
    assert (first.driver, first.width, first.max_width, first.answers) == ("nvidia", 8, 16, True)
    assert first.bars[0] == (0x80000000, 0x80FFFFFF)
    assert (second.driver, second.width, second.answers, second.bars) == ("", 0, False, ((0, 0),))
    assert switch.answers is None
    assert first.text == "0000:41:00.0 [10de:2331]"


def test_no_card_is_known_and_an_unreadable_bus_unknown() -> None:
    assert PciProbe().read(Output(0, b"")) == Known(())
    assert PciProbe().read(Output(69, b"")) == Absent()
    assert PciProbe().read(Output(70, b"", b"/sys is not mounted\n")) == Unknown("/sys is not mounted")


OPEN = b"""\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)
param EnableMSI: 1
param ModifyDeviceFiles: 1
gpu 0000:41:00.0
Model: \t\t NVIDIA H100 PCIe
IRQ:   \t\t 40
GPU UUID: \t GPU-5ca1ab1e-0000-4000-8000-000000001000
Bus Location: \t 0000:41:00.0
Device Minor: \t 3
GPU Firmware: \t 580.95.05
gpu 0000:42:00.0
Model: \t\t NVIDIA H100 PCIe
GPU UUID: \t GPU-????????-????-????-????-????????????
Device Minor: \t ?
"""


def test_loaded_open_driver() -> None:
    loaded = DriverProcProbe().parse(Output(0, OPEN))
    assert (loaded.version, loaded.flavour) == ("580.95.05", "open")
    assert dict(loaded.params)["ModifyDeviceFiles"] == "1"
    assert [(gpu.address, gpu.minor) for gpu in loaded.gpus] == [("0000:41:00.0", 3), ("0000:42:00.0", None)]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Fri Oct 25 22:43:06 UTC 2024", "535.216.03"),
        (b"NVRM version: NVIDIA UNIX aarch64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022", "390.157"),
    ],
)
def test_loaded_proprietary_driver(line: bytes, version: str) -> None:
    loaded = DriverProcProbe().parse(Output(0, line + b"\n"))
    assert (loaded.version, loaded.flavour) == (version, "proprietary")


def test_a_version_file_that_says_something_else_is_unknown() -> None:
    assert isinstance(DriverProcProbe().read(Output(0, b"garbage\n")), Unknown)


def test_device_files_majors_and_links() -> None:
    text = b"major 195 nvidia\nmajor 195 nvidiactl\nmajor 511 nvidia-uvm\n"
    text += b"file c3 ff 666 root root /dev/nvidiactl\nfile 1ff 0 666 root root /dev/nvidia-uvm\nlink 195:0\n"
    found = DeviceFilesProbe().parse(Output(0, text))
    assert found.major("nvidia-uvm") == 511
    assert found.major("nvidia-caps") is None
    assert found.file("/dev/nvidiactl") == DeviceFile("/dev/nvidiactl", 195, 255, 0o666, "root", "root")
    assert found.file("/dev/nvidia-uvm-tools") is None
    assert found.links == ("195:0",)
