"""Cards on the bus, the loaded driver, device files: text of a host in, facts out."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.facts.gpu import DeviceFile, DeviceFilesProbe, DriverProcProbe, PciDevice, PciProbe
from provisioner.model.fact import Absent, Known, Output, Unknown
from tests.unit.facts.shell import ask, put

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


def device(address: str, **files: str) -> dict[str, str | bytes]:
    folder = f"/sys/bus/pci/devices/{address}"
    return {f"{folder}/{name}": f"{value}\n" if not value.startswith("-> ") else value for name, value in files.items()}


def test_the_bus_of_a_host(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            **device("0000:00:02.0", vendor="0x8086", device="0x1234", **{"class": "0x030000"}),
            **device("0000:41:00.1", vendor="0x10de", device="0x10f7", **{"class": "0x040300"}),
            **device(
                "0000:41:00.0",
                vendor="0x10de",
                device="0x2331",
                current_link_width="8",
                max_link_width="16",
                driver="-> ../../../../bus/pci/drivers/vfio-pci",
                resource="0x0000000080000000 0x0000000080ffffff 0x0000000000040200\n0x0 0x0 0x0",
                **{"class": "0x030200"},
            ),
            "/sys/bus/pci/devices/0000:41:00.0/config": bytes([0xDE, 0x10, 0x31, 0x23]) + bytes(60),
            **device(
                "0000:42:00.0", vendor="0x10de", device="0x2331", physfn="-> ../0000:41:00.0", **{"class": "0x030200"}
            ),
        },
    )
    found = ask(PciProbe(), tmp_path)
    assert found == Known(
        (
            PciDevice(
                "0000:41:00.0",
                0x2331,
                "0302",
                driver="vfio-pci",
                bars=((0x80000000, 0x80FFFFFF), (0, 0)),
                width=8,
                max_width=16,
                answers=True,
            ),
            PciDevice("0000:42:00.0", 0x2331, "0302", virtual=True),
        )
    )


def test_a_device_that_cannot_be_read_makes_the_whole_unknown(tmp_path: Path) -> None:
    put(tmp_path, device("0000:41:00.0", device="0x2331"))
    found = ask(PciProbe(), tmp_path)
    assert isinstance(found, Unknown)
    assert found.reason.endswith("/vendor cannot be read")


def test_machines_without_pci(tmp_path: Path) -> None:
    assert isinstance(ask(PciProbe(), tmp_path), Unknown)  # not even /sys
    put(tmp_path, {"/sys/bus/usb/drivers_probe": ""})
    assert ask(PciProbe(), tmp_path) == Absent()


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
