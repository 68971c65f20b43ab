"""The driver's packages for hosts with a kernel of their own: the lab's user space, and modules that really load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.lab.debs import Deb, File, build
from tests.lab.driver import BROKEN, user_space
from tests.lab.paths import CACHE, fingerprint
from tests.vm import modules_built
from tests.vm.cached import filling
from tests.vm.kernel import Kernel

#: Two branches; compiled modules are there for both.
VERSIONS = ("570.172.08", "580.95.05")
KERNEL_PACKAGE = "nvidia-kernel-open-dkms"

#: As Debian's dh_dkms writes them into a package.
_DKMS_POSTINST = """\
if [ "$1" = configure ]; then
    /usr/lib/dkms/common.postinst nvidia {version} /usr/share/nvidia-kernel-open-dkms "" "$2"
fi
"""
_DKMS_PRERM = """\
case $1 in remove | upgrade | deconfigure)
    if [ "$(dkms status -m nvidia -v {version})" ]; then dkms remove -m nvidia -v {version} --all; fi ;;
esac
"""
_DEPMOD = "[ ! -e /lib/modules/{release}/modules.order ] || depmod {release}\n"
#: A kernel that is installed in the same run has the module in its initramfs already.
_INTO_INITRAMFS = """\
image=/boot/initrd.img-{release}
[ ! -e $image ] || lsinitramfs $image | grep -q nouveau || update-initramfs -u -k {release}
"""
_HOOK = """\
#!/bin/sh
[ "$1" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
manual_add_modules nouveau
"""


def prebuilt_debs(version: str, boots: Kernel, newer: Kernel) -> Iterator[Deb]:
    """The kernel package of one version, with compiled modules for the kernel that boots.

    It has the name of the one that builds them, so that the same top package leads to it. The modules for the newer
    kernel are a package that nothing asks for.
    """
    yield _modules(KERNEL_PACKAGE, version, boots)
    yield _modules(f"linux-modules-nvidia-open-{newer.release}", version, newer)


def dkms_debs(version: str, *, broken: bool = False) -> Iterator[Deb]:
    """The kernel package with sources that dkms builds on the host. ``broken``: they don't compile."""
    source = modules_built.source(version, broken=broken)
    scripts = {"postinst": _DKMS_POSTINST, "prerm": _DKMS_PRERM}
    yield Deb(
        KERNEL_PACKAGE,
        f"{version}-1",
        provides=f"nvidia-kernel (= {version}-1)",
        depends=_kernel_depends("dkms", version),
        files={f"/usr/src/nvidia-{version}/{name}": file for name, file in source.items()},
        scripts={name: text.format(version=version) for name, text in scripts.items()},
    )


def broken_debs() -> Iterator[Deb]:
    """All packages of the version whose modules don't compile."""
    yield from user_space(BROKEN, real=True)
    yield from dkms_debs(BROKEN, broken=True)


def nouveau(kernel: Kernel) -> tuple[Path]:
    """The package with a nouveau for that kernel, in its initramfs as well; the cache keeps it."""
    release = kernel.release
    module = modules_built.nouveau(kernel, VERSIONS)
    deb = Deb(
        f"nouveau-{release}",
        "1.0-1",
        depends="kmod, initramfs-tools",
        section="kernel",
        files={
            f"/lib/modules/{release}/kernel/drivers/gpu/drm/nouveau/nouveau.ko": File(module),
            f"/usr/share/initramfs-tools/hooks/nouveau-{release}": File(_HOOK.encode(), 0o755),
        },
        scripts={"postinst": (_DEPMOD + _INTO_INITRAMFS).format(release=release)},
    )
    folder = CACHE / f"vm-nouveau-{fingerprint([repr(deb)])}"
    if not folder.exists():
        with filling(folder) as partial:
            build(deb, partial)
    return (folder / deb.filename,)


def _modules(name: str, version: str, kernel: Kernel) -> Deb:
    built = modules_built.driver_modules(version, kernel, VERSIONS)
    at = f"/lib/modules/{kernel.release}/updates"
    depmod = _DEPMOD.format(release=kernel.release)
    return Deb(
        name,
        f"{version}-1",
        provides=f"nvidia-kernel (= {version}-1)",
        depends=_kernel_depends("kmod", version),
        files={f"{at}/{file}": File(content) for file, content in built.items()},
        scripts={"postinst": depmod, "postrm": depmod},
    )


def _kernel_depends(tool: str, version: str) -> str:
    return f"{tool}, nvidia-kernel-support (>= {version}-1), firmware-nvidia-gsp (= {version}-1)"
