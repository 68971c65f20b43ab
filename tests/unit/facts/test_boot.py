"""Kernels and Secure Boot, read by the real scripts from files as hosts have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.facts.boot import Kernel, KernelsProbe, SecureBoot, SecureBootProbe, Signers, SignersProbe
from provisioner.model.fact import Known, Unknown
from tests.unit.facts.shell import ask, put

UNAME = {"uname": "echo 6.1.0-18-amd64", "dkms": "exit 1"}
NO_MODULE = {**UNAME, "modinfo": "exit 1", "modprobe": "exit 1"}
TWO_KERNELS = {
    "/boot/vmlinuz-6.1.0-18-amd64": "",
    "/boot/vmlinuz-6.1.0-9-amd64": "",
    "/boot/vmlinuz-6.1.0-21-amd64": "",
}


def kernels(root: Path, commands: dict[str, str] | None = None) -> Any:
    found = ask(KernelsProbe(), root, commands or NO_MODULE)
    assert isinstance(found, Known), found
    return found.value


def test_next_is_the_newest_by_version_not_by_name(tmp_path: Path) -> None:
    put(tmp_path, {**TWO_KERNELS, "/proc/cmdline": "root=/dev/sda1 iommu=pt\n"})
    put(tmp_path, {"/lib/modules/6.1.0-18-amd64/build/Makefile": ""})
    found = kernels(tmp_path)
    assert found.running == Kernel("6.1.0-18-amd64", headers=True)
    assert found.next == Kernel("6.1.0-21-amd64")
    assert found.why_next == "it is the newest in /boot"
    assert found.command_line == "root=/dev/sda1 iommu=pt"
    assert [kernel.release for kernel in found.both] == ["6.1.0-18-amd64", "6.1.0-21-amd64"]


def test_a_dangling_build_link_is_no_headers(tmp_path: Path) -> None:
    put(tmp_path, {"/lib/modules/6.1.0-18-amd64/build": "-> /usr/src/gone"})
    assert not kernels(tmp_path).running.headers


@pytest.mark.parametrize(
    ("default", "environment", "release", "why"),
    [
        ("GRUB_DEFAULT=0", "", "6.1.0-21-amd64", "it is the newest in /boot"),
        (
            'GRUB_DEFAULT="gnulinux-advanced-1b>gnulinux-6.1.0-18-amd64-advanced-1b"',
            "",
            "6.1.0-18-amd64",
            "GRUB's entry names it",
        ),
        (
            "GRUB_DEFAULT=saved",
            "saved_entry=gnulinux-6.1.0-9-amd64-advanced-1b\n",
            "6.1.0-9-amd64",
            "GRUB's entry names it",
        ),
        (
            "GRUB_DEFAULT=0",
            "saved_entry=gnulinux-6.1.0-9-amd64-advanced-1b\n",
            "6.1.0-21-amd64",
            "it is the newest in /boot",
        ),
        (
            "GRUB_DEFAULT='1>2'",
            "",
            "6.1.0-21-amd64",
            "it is the newest in /boot, as GRUB's entry '1>2' names no kernel",
        ),
        ("GRUB_DEFAULT=0", "next_entry=x>gnulinux-6.1.0-18-amd64\n", "6.1.0-18-amd64", "GRUB's entry names it"),
    ],
)
def test_grub_says_which_boots(tmp_path: Path, default: str, environment: str, release: str, why: str) -> None:
    put(tmp_path, {**TWO_KERNELS, "/etc/default/grub": f"{default}\n"})
    if environment:
        put(tmp_path, {"/boot/grub/grubenv": f"# GRUB Environment Block\n{environment}"})
    found = kernels(tmp_path)
    assert (found.next.release, found.why_next) == (release, why)


def test_no_kernel_in_boot(tmp_path: Path) -> None:
    found = kernels(tmp_path)
    assert found.next is None
    assert found.both == (Kernel("6.1.0-18-amd64"),)


def test_the_module_for_each_kernel(tmp_path: Path) -> None:
    put(tmp_path, TWO_KERNELS)
    # as on Debian: modinfo doesn't know the name, modprobe's alias leads to nvidia-current.ko
    commands = {
        **UNAME,
        "modprobe": 'case "$*" in *6.1.0-18*) echo "insmod /lib/modules/nvidia-current.ko NVreg_x=1";; esac',
        "modinfo": 'case "$*" in *" nvidia") exit 1;; "-F version "*) echo 535.216.03;; "-F license"*) echo NVIDIA;;'
        ' "-F signer"*) echo DKMS module signing key;; esac',
    }
    found = kernels(tmp_path, commands)
    assert found.running == Kernel("6.1.0-18-amd64", False, "535.216.03", "proprietary", "DKMS module signing key")
    assert found.next == Kernel("6.1.0-21-amd64")


GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
VARIABLES = "/sys/firmware/efi/efivars"
SHIM = "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"


def variable(value: int) -> bytes:
    return bytes([6, 0, 0, 0, value])


@pytest.mark.parametrize(
    ("values", "enforced"),
    [
        ({"SecureBoot": 1, "SetupMode": 0}, True),
        ({"SecureBoot": 0, "SetupMode": 0}, False),
        ({"SecureBoot": 1, "SetupMode": 1}, False),
        ({"SecureBoot": 1, "SetupMode": 0, SHIM: 1}, False),
        ({"SecureBoot": 1, "SetupMode": 0, SHIM: 0}, True),
    ],
)
def test_secure_boot_as_linux_decides(tmp_path: Path, values: dict[str, int], enforced: bool) -> None:
    names = {f"{VARIABLES}/{name if '-' in name else f'{name}-{GLOBAL}'}": variable(v) for name, v in values.items()}
    put(tmp_path, names)
    assert ask(SecureBootProbe(), tmp_path) == Known(SecureBoot(enforced=enforced, efi=True))


def test_bios_and_lockdown(tmp_path: Path) -> None:
    put(tmp_path, {"/sys/kernel/security/lockdown": "none [integrity] confidentiality\n"})
    found = ask(SecureBootProbe(), tmp_path)
    assert found == Known(SecureBoot(enforced=False, efi=False, lockdown="integrity", signed_only=True))


@pytest.mark.parametrize(
    ("said", "enforced"),
    [
        ("SecureBoot enabled", True),
        ("SecureBoot disabled\nPlatform is in Setup Mode", False),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim", False),
    ],
)
def test_mokutil_where_variables_cannot_be_read(tmp_path: Path, said: str, enforced: bool) -> None:
    put(tmp_path, {"/sys/firmware/efi/systab": ""})
    found = ask(SecureBootProbe(), tmp_path, {"mokutil": f"printf '%s\\n' '{said}'"})
    assert found == Known(SecureBoot(enforced=enforced, efi=True))


def test_neither_answers(tmp_path: Path) -> None:
    put(tmp_path, {"/sys/firmware/efi/systab": ""})
    found = ask(SecureBootProbe(), tmp_path, {"mokutil": "echo 'Failed to read SecureBoot' >&2; exit 1"})
    assert isinstance(found, Unknown)


KEYS = """\
0a1b2c3d I------     1 perm 1f030000 0 0 asymmetri Debian Secure Boot CA: 6ccece7e4c6c0d1f: X509.rsa 419ea1 []
1b2c3d4e I------ 1 perm 1f03 0 0 asymmetri Canonical Ltd.: Canonical Ltd. Kernel Module Signing: 88f7: X509.rsa 0b []
2c3d4e5f I--Q---     4 perm 1f3f0000     0 65534 keyring   _uid.0: empty
"""
ENROLLED = """\
[key 1]
SHA1 Fingerprint: 53:61:0c:f8
        Subject: C=GB, ST=Isle of Man, O=Canonical Ltd., CN=Canonical Ltd. Master Certificate Authority
[key 2]
        Subject: CN = DKMS module signing key
"""


def test_accepted_signers_and_the_key_of_dkms(tmp_path: Path) -> None:
    put(tmp_path, {"/proc/keys": KEYS, "/var/lib/dkms/mok.pub": "", "enrolled": ENROLLED})
    said = f'case $1 in --list-enrolled) cat {tmp_path}/enrolled;; *) echo "$2 is not enrolled";; esac'
    found = ask(SignersProbe(), tmp_path, {"mokutil": said})
    assert found == Known(
        Signers(
            accepted=(
                "Debian Secure Boot CA",
                "Canonical Ltd.: Canonical Ltd. Kernel Module Signing",
                "Canonical Ltd. Master Certificate Authority",
                "DKMS module signing key",
            ),
            dkms_key=f"{tmp_path}/var/lib/dkms/mok.pub",
            dkms_enrolled=False,
        )
    )
    assert isinstance(found, Known)
    assert found.value.accepts("Canonical Ltd. Kernel Module Signing")
    assert not found.value.accepts("Module Signing")
    assert not found.value.accepts("")


def test_the_configured_key_of_dkms_comes_first(tmp_path: Path) -> None:
    put(tmp_path, {"/proc/keys": "", "/var/lib/dkms/mok.pub": "", "/root.der": ""})
    put(tmp_path, {"/etc/dkms/framework.conf": f'mok_certificate="{tmp_path}/root.der"\n'})
    found = ask(SignersProbe(), tmp_path, {"mokutil": 'echo "$2 is already enrolled"'})
    assert isinstance(found, Known)
    assert (found.value.dkms_key, found.value.dkms_enrolled) == (f"{tmp_path}/root.der", True)
