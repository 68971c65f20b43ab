"""The driver's packages, with names and dependency shapes of NVIDIA's Debian repository."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.lab.debs import Deb, File
from tests.lab.engine import run
from tests.lab.paths import SIM

#: Two branches; the middle one is a later release of the older branch.
VERSIONS = ("570.158.01", "570.172.08", "580.95.05")
#: A release whose kernel package fails while it is configured.
BROKEN = "580.99.99"

_LIB = "/usr/lib/x86_64-linux-gnu"
_MODULES = {
    "nvidia": "",
    "nvidia-uvm": "nvidia",
    "nvidia-modeset": "nvidia",
    "nvidia-drm": "nvidia-modeset",
    "nvidia-peermem": "nvidia",
}

_ENABLE = """\
if [ "$1" = configure ]; then
    deb-systemd-helper unmask {unit} >/dev/null || true
    deb-systemd-helper enable {unit} >/dev/null || true
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        deb-systemd-invoke {start} {unit} >/dev/null || true
    fi
fi
"""
_DISABLE = """\
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then
    deb-systemd-invoke stop {unit} >/dev/null || true
fi
"""


def driver_debs(version: str, *, broken: bool = False) -> Iterator[Deb]:
    """All packages of one driver version."""
    full = f"{version}-1"
    yield from user_space(version)
    yield Deb(
        "cuda-drivers",
        full,
        section="non-free/metapackages",
        depends=f"nvidia-driver-cuda (>= {full}), nvidia-kernel-dkms (>= {full})",
    )
    for name, licence in (("nvidia-kernel-open-dkms", "Dual MIT/GPL"), ("nvidia-kernel-dkms", "NVIDIA")):
        other = "nvidia-kernel-dkms" if "open" in name else "nvidia-kernel-open-dkms"
        yield Deb(
            name,
            full,
            conflicts=other,
            provides=f"nvidia-kernel (= {full})",
            depends=f"dkms, nvidia-kernel-support (>= {full}), firmware-nvidia-gsp (= {full})",
            files={f"/usr/src/nvidia-{version}/{key}": file for key, file in _modules(version, licence).items()},
            scripts=_kernel_scripts(version, broken),
        )


def user_space(version: str, *, real: bool = False) -> Iterator[Deb]:
    """The packages of one driver version besides its kernel modules.

    ``real``: for hosts with a kernel of their own, on which loaded modules answer and device files are opened.
    """
    full = f"{version}-1"
    branch = int(version.split(".")[0])
    yield Deb(
        "nvidia-open",
        full,
        section="non-free/metapackages",
        depends=f"nvidia-driver-cuda (>= {full}), nvidia-kernel-open-dkms (>= {full})",
    )
    yield Deb(
        "nvidia-driver-cuda",
        full,
        depends=f"libcuda1 (= {full}), libnvidia-ml1 (= {full}), nvidia-persistenced (>= {full}), "
        f"nvidia-modprobe (>= {full})",
        files={"/usr/bin/nvidia-smi": _script("nvidia-smi", version, real)},
    )
    yield Deb(
        "nvidia-kernel-support",
        full,
        depends=f"nvidia-modprobe (>= {full}), kmod",
        files={
            "/etc/modprobe.d/nvidia-options.conf": File(b"# options nvidia NVreg_DeviceFileMode=0660\n"),
            "/usr/lib/modprobe.d/nvidia-blacklists-nouveau.conf": File(b"blacklist nouveau\n"),
        },
        conffiles=("/etc/modprobe.d/nvidia-options.conf",),
    )
    gsp = {f"/usr/lib/firmware/nvidia/{version}/{name}.bin": File(b"GSP") for name in ("gsp_ga10x", "gsp_tu10x")}
    yield Deb("firmware-nvidia-gsp", full, files=gsp, section="non-free-firmware/kernel")
    yield Deb("nvidia-modprobe", full, files={"/usr/bin/nvidia-modprobe": _script("nvidia-modprobe", version)})
    yield Deb(
        "libcuda1",
        full,
        section="non-free/libs",
        depends=f"libc6, libnvidia-ml1 (>= {full})",
        files=_library("libcuda", version, real),
        scripts={"postinst": "ldconfig\n", "postrm": "ldconfig\n"},
    )
    yield Deb(
        "libnvidia-ml1",
        full,
        section="non-free/libs",
        depends="libc6",
        files=_library("libnvidia-ml", version, real),
        scripts={"postinst": "ldconfig\n", "postrm": "ldconfig\n"},
    )
    yield _daemon(
        "nvidia-persistenced",
        full,
        "nvidia-persistenced.service",
        f"libnvidia-ml1 (>= {full})",
        "restart",
        {
            "/usr/bin/nvidia-persistenced": File(_compiled("nvidia-persistenced.c", version, *_flags(real)), 0o755),
        },
    )
    # The suffix went away with branch 580.
    suffix = "" if branch >= 580 else f"-{branch}"
    yield _daemon(
        f"nvidia-fabricmanager{suffix}",
        full,
        "nvidia-fabricmanager.service",
        "libc6",
        "try-restart",
        {
            "/usr/bin/nv-fabricmanager": _script("nv-fabricmanager", version),
            "/usr/share/nvidia/nvswitch/fabricmanager.cfg": File(b"DAEMONIZE=0\nLOG_LEVEL=4\n"),
        },
        enable=False,
    )
    yield Deb(
        f"libnvidia-nscq{suffix}",
        full,
        section="non-free/libs",
        depends="libc6",
        files={f"{_LIB}/libnvidia-nscq.so.{version}": empty_library("libnvidia-nscq.so.2")},
    )


def transitional_debs() -> Iterator[Deb]:
    """A name of an old branch that installs the new one, as distributions leave them behind."""
    new = f"{VERSIONS[-1]}-1"
    yield Deb(
        "nvidia-driver-570-server-open",
        new,
        section="non-free/oldlibs",
        depends=f"nvidia-open (>= {new})",
        description="Transitional package for nvidia-driver-580-server-open",
    )


def dkms_deb() -> Deb:
    """dkms without the compiler it would bring along. Older than every real one, so that those win."""
    return Deb(
        "dkms",
        "3.0.10-0lab1",
        depends="kmod",
        section="kernel",
        files={"/usr/sbin/dkms": File((SIM / "driver" / "dkms").read_bytes(), 0o755)},
    )


def _script(name: str, version: str, real: bool = False) -> File:
    text = (SIM / "driver" / name).read_text()
    text = text.replace("@VERSION@", version).replace("@REAL@", "yes" if real else "no")
    return File(text.encode(), 0o755)


def _flags(real: bool) -> list[str]:
    return ["-DREAL_MODULES"] if real else []


def _daemon(
    name: str, full: str, unit: str, depends: str, start: str, files: dict[str, File], *, enable: bool = True
) -> Deb:
    service = File((SIM / "driver" / unit).read_bytes())
    scripts = {"prerm": _DISABLE.format(unit=unit)}
    if enable:
        scripts["postinst"] = _ENABLE.format(unit=unit, start=start)
    return Deb(
        name, full, depends=depends, files={f"/usr/lib/systemd/system/{unit}": service, **files}, scripts=scripts
    )


def _kernel_scripts(version: str, broken: bool) -> dict[str, str]:
    build = f"dkms add -m nvidia -v {version}\ndkms install -m nvidia -v {version}\n"
    if broken:
        build = (
            f"dkms add -m nvidia -v {version}\n"
            'echo "Error! Bad return status for module build on kernel: $(uname -r) (x86_64)" >&2\n'
            f'echo "Consult /var/lib/dkms/nvidia/{version}/build/make.log for more information." >&2\nexit 10\n'
        )
    return {
        "postinst": f'if [ "$1" = configure ]; then\n{build}fi\n',
        "prerm": f"dkms remove -m nvidia -v {version} --all || true\n",
    }


def _library(name: str, version: str, real: bool) -> dict[str, File]:
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{name}.so.1", *_flags(real)]
    return {
        f"{_LIB}/{name}.so.{version}": File(_compiled(f"{name}.c", version, *flags)),
        f"{_LIB}/{name}.so.1": File(b"", link=f"{name}.so.{version}"),
    }


def empty_library(soname: str) -> File:
    """A shared library without a function."""
    with tempfile.TemporaryDirectory(prefix="provision-lab-cc-") as folder:
        target = Path(folder) / "out"
        run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-x", "c", "/dev/null", "-o", target])
        return File(target.read_bytes())


def _modules(version: str, licence: str) -> dict[str, File]:
    files = {}
    for name, depends in _MODULES.items():
        values = {
            "MODULE_LICENSE": licence,
            "MODULE_DEPENDS": depends,
            "MODULE_NAME": name.replace("-", "_"),
            "MODULE_SRCVERSION": hashlib.md5(f"{name}{version}{licence}".encode()).hexdigest()[:23].upper(),
            "KERNEL_RELEASE": os.uname().release,
        }
        flags = [f'-D{key}="{value}"' for key, value in values.items()]
        if name == "nvidia":
            flags.append("-DMODULE_SUPPORTED")
        files[f"{name}.ko"] = File(_compiled("../host/module.c", version, "-c", *flags))
    return files


def _compiled(source: str, version: str, *flags: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="provision-lab-cc-") as folder:
        target = Path(folder) / "out"
        run(
            ["gcc", "-std=gnu11", "-O1", f'-DDRIVER_VERSION="{version}"', *flags, "-o", target, SIM / "driver" / source]
        )
        return target.read_bytes()
