"""Disks made of folders, without a loop device: a bootable one with GRUB, and a plain file system."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.lab.engine import LabError, root, run

SECTOR = 512
#: The one partition starts here, as every partitioning tool puts it; GRUB's core lives before it.
FIRST_SECTOR = 2048
_FORMAT = ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^orphan_file,^metadata_csum_seed"]


def bootable(tree: Path, target: Path, *, size: int, uuid: str) -> None:
    """Write a disk of ``size`` bytes: boot record, GRUB's core, and one ext4 partition with the content of ``tree``.

    ``tree`` must hold GRUB's ``boot.img`` and the ``core.img`` that ``grub-mkimage`` made for a disk, both below
    /boot/grub/i386-pc. What grub-install would do to a disk that a kernel has open is done to the file here.
    """
    grub = tree / "boot/grub/i386-pc"
    boot, core = (grub / "boot.img").read_bytes(), (grub / "core.img").read_bytes()
    room = (FIRST_SECTOR - 1) * SECTOR
    if len(boot) != SECTOR or len(core) > room:
        raise LabError(f"GRUB's images don't fit before the partition: {len(boot)} and {len(core)} of {room} bytes")
    offset = FIRST_SECTOR * SECTOR
    blocks = (size - offset) // 1024
    with target.open("wb") as file:
        file.truncate(size)
    run(
        root([*_FORMAT, "-L", "root", "-U", uuid, "-E", f"offset={offset}", "-d", str(tree), str(target), f"{blocks}k"])
    )
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", FIRST_SECTOR, size // SECTOR - 2048)
    with target.open("r+b") as file:
        file.write(boot[:440] + b"vmvm\0\0" + entry + bytes(48) + b"\x55\xaa")
        file.write(core)


def plain(tree: Path, target: Path, *, label: str, spare: int = 16 << 20) -> None:
    """Write an ext4 file system with the content of ``tree`` and the given label."""
    used = int(run(root(["du", "-s", "-B1", str(tree)])).split()[0])
    blocks = (used + used // 8 + spare) // 1024
    run(root([*_FORMAT, "-O", "^has_journal", "-L", label, "-d", str(tree), str(target), f"{blocks}k"]))
