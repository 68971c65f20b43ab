"""The driver on disk and in the kernel, read from a host made of files; nvidia-smi is never run."""

from __future__ import annotations

from pathlib import Path

from provisioner.facts.driver import (
    LibrariesProbe,
    LoadedModules,
    Module,
    ModulesOnDiskProbe,
    Smi,
    SmiProbe,
)
from provisioner.model.fact import Absent, Known, Unknown
from tests.unit.facts.shell import ask, put

MODINFO = """
case "$1" in
nvidia) f=/lib/modules/6.1.0/updates/dkms/nvidia.ko ;;
/l/nvidia-modeset.ko) f=$1 ;;
nvidia-current-uvm) f=/lib/modules/6.1.0/updates/dkms/nvidia-current-uvm.ko ;;
*) exit 1 ;;
esac
echo "filename:       $f"
echo 'license:        NVIDIA'
echo 'version:        535.216.03'
echo 'alias:          pci:v000010DEd*sv*sd*bc03sc02i00*'
echo 'signer:         DKMS key'
printf 'signature:      4B:2A\n\t\t01:02\n'
echo 'parm:           version: license of a parameter (int)'
"""
MODPROBE = """
case "$*" in
*nvidia_uvm) echo 'install modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS ' ;;
*nvidia_modeset) echo 'insmod /l/nvidia.ko'; echo 'insmod /l/nvidia-modeset.ko' ;;
*) exit 1 ;;
esac
"""


def test_loaded_modules(tmp_path: Path) -> None:
    put(tmp_path, {"/sys/module/ext4/refcnt": "3"})
    assert ask(LoadedModules(), tmp_path) == Absent()
    put(tmp_path, {"/sys/module/nvidia/version": "535.216.03\n", "/sys/module/nvidia_uvm/refcnt": "0\n"})
    assert ask(LoadedModules(), tmp_path) == Known({"nvidia": "535.216.03", "nvidia_uvm": ""})


def test_modules_on_disk_by_name_or_by_modprobes_alias(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "/lib/modules/6.1.0/build/Makefile": "",
            "/lib/modules/5.10.0/updates/dkms/nvidia.ko.xz": "",
            "/lib/modules/4.19.0/kernel/ext4.ko": "",
        },
    )
    tools = {
        "uname": "echo 6.1.0",
        "modinfo": MODINFO,
        "modprobe": MODPROBE,
        "dkms": "echo 'nvidia-current/535.216.03, 6.1.0, x86_64: installed'; echo 'zfs/2.1: added'",
    }
    fact = ask(ModulesOnDiskProbe(), tmp_path, tools)
    assert isinstance(fact, Known)
    disk = fact.value
    assert disk.modules["nvidia"] == Module(
        "nvidia", "535.216.03", "NVIDIA", "DKMS key", "/lib/modules/6.1.0/updates/dkms/nvidia.ko"
    )
    assert disk.modules["nvidia"].flavour == "proprietary"
    assert disk.modules["nvidia_uvm"].path == "/lib/modules/6.1.0/updates/dkms/nvidia-current-uvm.ko"
    assert disk.modules["nvidia_modeset"].path == "/l/nvidia-modeset.ko"
    assert disk.missing == ("nvidia_drm",)
    assert (disk.kernel, disk.headers, disk.other_kernels) == ("6.1.0", True, ("5.10.0",))
    assert disk.dkms == ("nvidia-current/535.216.03, 6.1.0, x86_64: installed",)


def test_all_copies_of_a_library(tmp_path: Path) -> None:
    lib = "/usr/lib/x86_64-linux-gnu"
    put(
        tmp_path,
        {
            f"{lib}/libcuda.so.535.216.03": "elf",
            f"{lib}/libcuda.so.1": "-> libcuda.so.535.216.03",
            "/usr/local/lib/libcuda.so.560.35.03": "",
            f"{lib}/libcudart.so.12.4.1": "elf",
        },
    )
    listing = f"printf '\\tlibcuda.so.1 (libc6,x86-64) => %s\\n' {tmp_path}{lib}/libcuda.so.1"
    put(tmp_path, {"/sbin/ldconfig": ""})
    # the loader's own tool is named by its path
    probe = LibrariesProbe()
    (tmp_path / "sbin/ldconfig").write_text(f"#!/bin/sh\n{listing}\n")
    (tmp_path / "sbin/ldconfig").chmod(0o755)
    fact = _with_ldconfig(probe, tmp_path)
    assert isinstance(fact, Known)
    found = [(library.name, library.version, library.size, library.linked) for library in fact.value]
    assert found == [("libcuda", "535.216.03", 3, True), ("libcuda", "560.35.03", 0, False)]


def _with_ldconfig(probe: LibrariesProbe, root: Path) -> object:
    from provisioner.facts.driver import LibrariesProbe as Original

    class Moved(Original):
        def script(self) -> str:
            return super().script().replace("/sbin/ldconfig", f"{root}/sbin/ldconfig")

    return ask(Moved(), root)


def test_nvidia_smi_by_its_package_or_its_bytes_and_never_by_running_it(tmp_path: Path) -> None:
    tools = {"nvidia-smi": f"touch {tmp_path}/ran", "dpkg-query": "exit 1", "rpm": "exit 1"}
    fact = ask(SmiProbe(), tmp_path, {**tools, "nvidia-smi": f"touch {tmp_path}/ran # NVIDIA-SMI 560.35.03"})
    assert fact == Known(Smi(f"{tmp_path}/tools/nvidia-smi", "", "560.35.03"))
    owned = """case "$1" in -S) echo "nvidia-smi: $2" ;; *) echo "nvidia-smi 535.216.03-2~bpo12+1" ;; esac"""
    fact = ask(SmiProbe(), tmp_path, {**tools, "dpkg-query": owned})
    assert fact == Known(Smi(f"{tmp_path}/tools/nvidia-smi", "nvidia-smi", "535.216.03"))
    assert not (tmp_path / "ran").exists()


def test_without_modinfo_nothing_is_known(tmp_path: Path) -> None:
    class Without(ModulesOnDiskProbe):
        def script(self) -> str:
            return super().script().replace("command -v modinfo", "command -v no-such-command")

    assert isinstance(ask(Without(), tmp_path), Unknown)
