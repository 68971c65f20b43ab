"""QEMU and what builds its disks: installed where they are missing, and whether this QEMU can carry a card."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

from tests.lab.engine import apt_install, run

#: Command → Debian package that brings it. Only what is missing gets installed, and only when a machine is wanted.
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "gpg": "gnupg",
    "gcc": "gcc",
    "make": "make",
    "mcopy": "mtools",
    "mkfs.vfat": "dosfstools",
}
#: Firmware with Secure Boot, which no command tells of.
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
EMULATOR = "qemu-system-x86_64"
CARD_DEVICE = "x-pci-proxy-dev"


@functools.cache
def install_missing_tools() -> None:
    """Install with one call of apt what the machines need on this machine and don't find."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    wanted = {package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None}
    if not FIRMWARE.exists():
        wanted.add("ovmf")
    apt_install(wanted)


@functools.cache
def version() -> str:
    """First line of ``qemu-system-x86_64 --version``: a saved state belongs to the QEMU that wrote it."""
    install_missing_tools()
    return run([EMULATOR, "--version"]).splitlines()[0]


@functools.cache
def refusal() -> str:
    """Why this QEMU can't carry a card, or "" where it can.

    The cards hang on ``x-pci-proxy-dev``, a device of QEMU whose protocol is private (the "x-" says so): a QEMU built
    without it makes the tests skip, with this as the reason printed.
    """
    install_missing_tools()
    if CARD_DEVICE not in run([EMULATOR, "-machine", "none", "-device", "help"]):
        return f"{version()} has no device {CARD_DEVICE}: no PCI cards can be given to a machine"
    return ""
