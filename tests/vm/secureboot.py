"""Firmware with Secure Boot, and the signed boot loader that it accepts, for machines whose boot is the subject."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.engine import LabError, run, say
from tests.lab.images import BASES, base_image, downloaded
from tests.lab.paths import CACHE, fingerprint
from tests.vm.cached import made
from tests.vm.engine import FIRMWARE
from tests.vm.image import ROOT_UUID

#: Variables of the firmware: with the keys that Microsoft's signature of shim needs, and without any (setup mode).
_VARIABLES = {True: "OVMF_VARS_4M.ms.fd", False: "OVMF_VARS_4M.fd"}
#: The signed GRUB reads it from the partition that it was started from; the rest is on the system's disk.
_GRUB = f"""\
search --no-floppy --fs-uuid --set=root {ROOT_UUID}
set prefix=($root)/boot/grub
configfile $prefix/grub.cfg
"""
#: File in the packages → place on the partition.
_LOADERS = {
    "usr/lib/shim/shimx64.efi.signed": "EFI/BOOT/BOOTX64.EFI",
    "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
}


def board(folder: Path, *, enforced: bool) -> Sequence[str]:
    """QEMU's arguments for a machine with Secure Boot on or off; the firmware's variables lie in ``folder``."""
    variables = folder / "variables.fd"
    shutil.copyfile(FIRMWARE.with_name(_VARIABLES[enforced]), variables)
    return [
        *("-M", "q35,smm=on,memory-backend=mem", "-global", "driver=cfi.pflash01,property=secure,value=on"),
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={FIRMWARE}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
        *("-drive", f"if=none,id=esp,format=raw,readonly=on,file={_partition()}"),
        *("-device", "virtio-blk-pci,drive=esp,bootindex=0"),
    ]


def _partition() -> Path:
    """A disk that is one FAT file system with shim and GRUB; the cache keeps it."""
    suite = "debian12"
    fetch = "apt-get install -q -y --no-install-recommends --download-only shim-signed grub-efi-amd64-signed\n"
    debs = downloaded("vm-secure-boot", base_image(suite), f"apt-get update -q\n{fetch}")
    recipe = [Path(__file__).read_text(), BASES[suite].codename, *(deb.name for deb in debs)]
    target = CACHE / f"vm-esp-{fingerprint(recipe)}.img"
    return made(target, lambda partial: _write(debs, partial))


def _write(debs: list[Path], target: Path) -> None:
    say("building the disk with the signed boot loader")
    with tempfile.TemporaryDirectory(prefix="vm-esp-", dir=CACHE) as name:
        tree = Path(name)
        for deb in debs:
            run(["dpkg-deb", "-x", deb, tree])
        (tree / "grub.cfg").write_text(_GRUB)
        with target.open("wb") as file:
            file.truncate(32 << 20)
        run(["mkfs.vfat", "-n", "ESP", target])
        run(["mmd", "-i", target, "::EFI", "::EFI/BOOT", "::EFI/debian"])
        for source, place in {**_LOADERS, "grub.cfg": "EFI/debian/grub.cfg"}.items():
            if not (tree / source).is_file():
                raise LabError(f"no {source} in {', '.join(deb.name for deb in debs)}")
            run(["mcopy", "-i", target, tree / source, f"::{place}"])
