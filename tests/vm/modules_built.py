"""The stand-in kernel modules, compiled in a container of the guest's release; a cache keeps them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.lab.debs import File
from tests.lab.engine import say
from tests.lab.images import base_image, in_container
from tests.lab.paths import CACHE, fingerprint
from tests.vm.cached import filling
from tests.vm.kernel import BASE, Kernel, kernels, packages

SOURCES = Path(__file__).resolve().parent / "modules"
LICENCE = "Dual MIT/GPL"
KIND = "NVIDIA UNIX Open Kernel Module for x86_64"

#: What no kernel of the guest's has: as a driver that is older than its kernel doesn't compile.
_TOO_NEW = """
int nv_mmap_flags(struct vm_area_struct *area);
int nv_mmap_flags(struct vm_area_struct *area)
{
    return nv_set_vm_flags_of_a_newer_kernel(area, VM_IO);
}
"""


def source(version: str, *, broken: bool = False) -> Mapping[str, File]:
    """The driver's module sources of one version, by file name. ``broken``: they don't compile."""
    files = {}
    for path in sorted((SOURCES / "driver").iterdir()):
        text = path.read_text()
        for name, value in (("VERSION", version), ("LICENSE", LICENCE), ("KIND", KIND)):
            text = text.replace(f"@{name}@", value)
        if broken and path.name == "nvidia.c":
            text += _TOO_NEW
        files[path.name] = File(text.encode())
    return files


def driver_modules(version: str, kernel: Kernel, versions: tuple[str, ...]) -> Mapping[str, bytes]:
    """Compiled modules of one driver version by file name; ``versions`` are those compiled together."""
    return _read(_compiled(versions) / kernel.release / version)


def nouveau(kernel: Kernel, versions: tuple[str, ...]) -> bytes:
    """The stand-in of nouveau.ko."""
    return _read(_compiled(versions) / kernel.release / "nouveau")["nouveau.ko"]


def _read(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.ko"))}


def _compiled(versions: tuple[str, ...]) -> Path:
    """The folder RELEASE/VERSION/*.ko and RELEASE/nouveau/*.ko."""
    both, debs = kernels(), packages()
    recipe: list[str | Path] = [SOURCES, Path(__file__), *versions, base_image(BASE), *(deb.name for deb in debs)]
    folder = CACHE / f"vm-modules-{fingerprint(recipe)}"
    if folder.exists():
        return folder
    say("compiling the stand-in kernel modules")
    wanted = " ".join(f"/debs/{deb.name}" for deb in debs if not deb.name.startswith("linux-image-"))
    # Built in the container, whose file system is fast, and with its owner.
    script = (
        f"dpkg -i --force-unsafe-io {wanted} >/tmp/log 2>&1 || {{ tail -n 20 /tmp/log; exit 1; }}\n"
        "cp -r /out /build; cd /build\n"
        "for k in *; do for m in $k/*; do make -s -j2 -C $m KERNEL_UNAME=$k modules; done; done\n"
        "for f in */*/*.ko; do strip --strip-debug $f; cp $f /out/$f; done\n"
        f"chown -R {os.getuid()}:{os.getgid()} /out\n"
    )
    with filling(folder) as partial:
        for kernel in both:
            for version in versions:
                at = partial / kernel.release / version
                at.mkdir(parents=True)
                for name, file in source(version).items():
                    (at / name).write_bytes(file.content)
            shutil.copytree(SOURCES / "nouveau", partial / kernel.release / "nouveau")
        in_container(base_image(BASE), script, f"{debs[0].parent}:/debs:ro", f"{partial}:/out")
    return folder
