"""The verdict of provision-selftest: fail on evidence only, unknown otherwise, within its time."""

from __future__ import annotations

import shutil
import time

import pytest

from tests.unit.selftest.machine import BOOT_ID, SELFTEST, VERSION, Machine

XID = "NVRM: Xid (PCI:0000:01:00): "


def test_healthy_host_passes_and_says_which_boot(machine: Machine) -> None:
    assert machine.verdict() == ("pass", "")
    found = machine.result()
    assert found["schema"] == 1
    assert (found["boot_id"], found["boot_start"]) == (BOOT_ID, "547793")
    assert [check["name"] for check in found["checks"]] == ["versions", "devices", "cards", "nvidia-smi", "xid", "cuda"]
    assert [card["index"] for card in found["cards"]] == [0, 1]
    assert len(found["version"]) == 16


def test_another_configuration_is_another_version(machine: Machine) -> None:
    machine.verdict()
    first = machine.result()["version"]
    machine.settings["EXPECTED_CARDS"] = "8"
    machine.verdict()
    assert machine.result()["version"] != first


def test_library_of_another_version_is_a_fail_that_names_both(machine: Machine) -> None:
    machine.write("sys/module/nvidia/version", "535.216.03\n")
    assert machine.verdict() == ("fail", "DriverLibraryMismatch")
    assert "535.216.03" in machine.result()["detail"]
    assert VERSION in machine.result()["detail"]


def test_nvidia_smi_that_sees_another_driver_is_a_fail(machine: Machine) -> None:
    machine.smi(version="535.216.03")
    assert machine.verdict() == ("fail", "DriverLibraryMismatch")


def test_newer_module_on_disk_alone_is_no_evidence(machine: Machine) -> None:
    machine.command("modinfo", "echo 550.163.01")
    assert machine.verdict() == ("unknown", "ModuleOnDiskDiffers")


def test_libraries_of_another_architecture_do_not_count(machine: Machine) -> None:
    machine.write("lib32/libcuda.so.1", "ELF")
    machine.command("ldconfig", f"printf '\\tlibcuda.so.1 (libc6) => {machine.root}/lib32/libcuda.so.1\\n'")
    assert machine.verdict() == ("unknown", "LibraryMissing")


def test_installed_module_that_is_not_loaded(machine: Machine) -> None:
    shutil.rmtree(machine.root / "sys/module/nvidia")
    assert machine.verdict() == ("fail", "ModuleNotLoaded")


def test_host_without_any_driver_is_unknown(machine: Machine) -> None:
    shutil.rmtree(machine.root / "sys/module/nvidia")
    machine.command("modinfo", "exit 1")
    assert machine.verdict() == ("unknown", "DriverNotFound")


def test_uvm_missing_fails_although_nvidia_smi_works(machine: Machine) -> None:
    shutil.rmtree(machine.root / "sys/module/nvidia_uvm")
    assert machine.verdict() == ("fail", "UvmNotLoaded")


def test_uvm_device_file_missing_fails(machine: Machine) -> None:
    (machine.root / "dev/nvidia-uvm").unlink()
    assert machine.verdict() == ("fail", "UvmDeviceMissing")


def test_card_off_the_bus(machine: Machine) -> None:
    shutil.rmtree(machine.root / "sys/bus/pci/devices/0000:02:00.0")
    assert machine.verdict() == ("fail", "CardMissing")


def test_card_on_the_bus_that_nvidia_smi_does_not_list(machine: Machine) -> None:
    machine.smi("GPU 0: NVIDIA A (UUID: GPU-a)")
    assert machine.verdict() == ("fail", "CardMissing")


def test_without_an_expected_number_the_bus_counts_but_not_cards_given_to_virtual_machines(machine: Machine) -> None:
    machine.settings["EXPECTED_CARDS"] = "0"
    machine.card("0000:03:00.0", driver="vfio-pci")
    assert machine.verdict() == ("pass", "")
    machine.card("0000:04:00.0")
    assert machine.verdict() == ("fail", "CardMissing")


def test_more_cards_than_expected_is_no_bad_card(machine: Machine) -> None:
    machine.settings["EXPECTED_CARDS"] = "1"
    assert machine.verdict() == ("unknown", "MoreCards")


@pytest.mark.parametrize(
    ("rc", "verdict"),
    [
        (8, ("fail", "PowerCables")),
        (15, ("fail", "CardLost")),
        (18, ("fail", "DriverLibraryMismatch")),
        (14, ("unknown", "InforomCorrupted")),
        (9, ("unknown", "NvidiaSmiFailed")),
        (255, ("unknown", "NvidiaSmiFailed")),
    ],
)
def test_exit_status_of_nvidia_smi(machine: Machine, rc: int, verdict: tuple[str, str]) -> None:
    machine.smi(rc=rc)
    assert machine.verdict() == verdict


@pytest.mark.parametrize(("name", "reason"), [("nvidia-smi", "NvidiaSmiMissing"), ("python3", "PythonMissing")])
def test_missing_tool_is_unknown(machine: Machine, name: str, reason: str) -> None:
    (machine.bin / name).unlink()
    assert machine.verdict() == ("unknown", reason)


def test_hung_nvidia_smi_is_unknown_and_not_waited_for(machine: Machine) -> None:
    machine.settings["DEADLINE"] = "3"
    machine.command("nvidia-smi", "trap '' TERM; sleep 50 & wait; sleep 50")
    began = time.monotonic()
    assert machine.verdict() == ("unknown", "NvidiaSmiTimeout")
    assert time.monotonic() - began < 10


def test_process_that_no_signal_ends_is_left_behind(machine: Machine) -> None:
    """As in uninterruptible sleep: killing does nothing, so only not waiting helps."""
    machine.settings["DEADLINE"] = "2"
    # Another session within: the kill of the group does not reach it, as no kill reaches state D.
    machine.command(
        "setsid", 'case $* in *nvidia-smi*) exec /usr/bin/setsid -f -w sleep 20;; esac; exec /usr/bin/setsid "$@"'
    )
    began = time.monotonic()
    assert machine.verdict()[0] == "unknown"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "line",
    [
        XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected",
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 95, pid=7194, Uncontained: CE User Channel (0x9)",
        "[   12.5] NVRM: Xid (PCI:0000:61:00.0): 119, pid=97, name=nvidia-smi, Timeout waiting for RPC from GSP!",
        XID + "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
    ],
)
def test_fatal_xid(machine: Machine, line: str) -> None:
    machine.kernel_log(line)
    assert machine.verdict() == ("fail", "FatalXid")


@pytest.mark.parametrize(
    "lines",
    [
        [XID + "31, Ch 0000000b, engmask 00000120, intr 10000000"],
        [XID + "94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"],
        [XID + "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)"],
        [XID + "154, GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX Domain)"],
        # The driver's last verdict overrules what came before it.
        [
            XID + "95, pid=7194, Uncontained",
            XID + "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            XID + "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
        ],
    ],
)
def test_xid_that_is_not_fatal(machine: Machine, lines: list[str]) -> None:
    machine.kernel_log(*lines)
    assert machine.verdict() == ("pass", "")


def test_verdict_none_on_one_card_does_not_clear_another(machine: Machine) -> None:
    machine.kernel_log(
        XID + "79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:02:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    )
    assert machine.verdict() == ("fail", "FatalXid")
    assert machine.result()["detail"].startswith("0000:01:00: Xid 79")


def test_only_the_kernel_and_root_are_believed_about_xids(machine: Machine) -> None:
    machine.command("journalctl", f'printf "%s\\n" "$*" >{machine.root}/asked')
    machine.verdict()
    asked = (machine.root / "asked").read_text().split()
    assert asked[-4:] == ["_TRANSPORT=kernel", "+", "SYSLOG_IDENTIFIER=kernel", "_UID=0"]
    assert "-b" in asked


def test_unreadable_kernel_log_is_unknown(machine: Machine) -> None:
    machine.command("journalctl", "exit 1")
    machine.command("dmesg", "exit 1")
    assert machine.verdict() == ("unknown", "KernelLogUnreadable")


def test_card_that_computes_wrong_fails_even_when_the_next_one_hangs(machine: Machine) -> None:
    machine.settings["DEADLINE"] = "3"
    machine.cuda(before='echo \'CARD {"index": 0, "result": "fail"}\'; sleep 50')
    assert machine.verdict() == ("fail", "CardFailed")


@pytest.mark.parametrize(
    ("lines", "rc", "verdict"),
    [
        (["Traceback (most recent call last):", "Segmentation fault"], 139, ("unknown", "CudaCheckFailed")),
        (["RESULT unknown LibraryMissing libcuda.so.1"], 0, ("unknown", "LibraryMissing")),
        (["RESULT fail WrongResult card 0"], 0, ("fail", "WrongResult")),
    ],
)
def test_what_the_computation_says(machine: Machine, lines: list[str], rc: int, verdict: tuple[str, str]) -> None:
    machine.cuda(*lines, rc=rc)
    assert machine.verdict() == verdict


def test_fabric_that_comes_up_late_is_waited_for(machine: Machine) -> None:
    machine.settings["DEADLINE"] = "60"
    seen = machine.root / "seen"
    machine.cuda(
        "RESULT pass - well", before=f"[ -e {seen} ] || {{ : >{seen}; echo RESULT unknown SystemNotReady; exit; }}"
    )
    assert machine.verdict() == ("pass", "")


def test_the_drivers_daemons_come_first(machine: Machine) -> None:
    """Both start with the test at boot; systemd shows the number of a job that isn't done."""
    asked = machine.root / "asked"
    machine.command("systemctl", f"echo >>{asked}; [ $(grep -c '' {asked}) -gt 2 ] || echo '412 /org/freedesktop/job'")
    machine.command("nvidia-smi", f"[ $(grep -c '' {asked}) = 3 ] && cat <<'.'\n{machine.smi_list}\n.")
    machine.verdict()
    cards = next(check for check in machine.result()["checks"] if check["name"] == "cards")
    assert cards["result"] == "pass", cards


@pytest.mark.parametrize("systemctl", ["echo 412", "sleep 50"])
def test_a_daemon_that_hangs_gets_half_of_the_time(machine: Machine, systemctl: str) -> None:
    machine.settings["DEADLINE"] = "8"
    machine.command("systemctl", systemctl)
    began = time.monotonic()
    assert machine.verdict() == ("pass", "")
    assert 3 <= time.monotonic() - began < 8


def test_with_mig_each_instance_and_each_whole_card_computes_alone(machine: Machine) -> None:
    machine.smi_list = (
        "GPU 0: NVIDIA A (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n"
        "  MIG 1g.5gb Device 1: (UUID: MIG-2)\nGPU 1: NVIDIA A (UUID: GPU-b)"
    )
    machine.smi()
    machine.cuda("RESULT pass - well", before=f'echo "$CUDA_VISIBLE_DEVICES" >>{machine.root}/devices')
    assert machine.verdict() == ("pass", "")
    assert (machine.root / "devices").read_text().split() == ["MIG-1", "MIG-2", "GPU-b"]


def test_no_card_and_none_expected_is_unknown(machine: Machine) -> None:
    machine.settings["EXPECTED_CARDS"] = "0"
    shutil.rmtree(machine.root / "sys/bus/pci/devices")
    assert machine.verdict() == ("unknown", "NoCards")


def test_file_switches_it_off(machine: Machine) -> None:
    machine.write("etc/selftest.disabled", "")
    assert machine.verdict()[0] == "off"


def test_kernel_parameter_switches_it_off(machine: Machine) -> None:
    machine.write("proc/cmdline", "ro quiet provision.selftest=off\n")
    assert machine.verdict()[0] == "off"


def test_killed_test_leaves_no_earlier_pass_behind(machine: Machine) -> None:
    machine.verdict()
    machine.command("nvidia-smi", f"kill -KILL $(/usr/bin/pgrep -f 'dash .*{machine.conf}')")
    assert machine.run().returncode != 0
    assert (machine.result()["result"], machine.result()["reason"]) == ("unknown", "Interrupted")


def test_hostile_output_stays_valid_json(machine: Machine) -> None:
    machine.smi('GPU is "lost" \\ \x1b[31m $(reboot) é', rc=15)
    assert machine.verdict() == ("fail", "CardLost")
    assert '"lost" \\ ' in machine.result()["detail"]


def test_only_a_pass_makes_this_version_trusted(machine: Machine) -> None:
    machine.smi(rc=15)
    machine.verdict("--trust")
    assert not (machine.state / "selftest.trusted").exists()
    machine.smi()
    machine.verdict("--trust")
    assert (machine.state / "selftest.trusted").read_text().strip() == machine.result()["version"]


def test_state_that_cannot_be_written_is_an_error_not_a_verdict(machine: Machine) -> None:
    machine.write("state", "a file where the folder should be")
    done = machine.run()
    assert done.returncode == 1
    assert str(machine.state) in done.stderr


def test_templates_hold_no_markers_of_their_own(machine: Machine) -> None:
    """Scripts are rendered as templates too; their text must survive that."""
    for name in (
        "provision-selftest",
        "provision-selftest-report",
        "cuda_check.py",
        "api_request.py",
        "fatal_xid.awk",
        "json_paths.awk",
    ):
        text = (SELFTEST / name).read_text()
        assert not any(marker in text for marker in ("{{", "{%", "{#"))
