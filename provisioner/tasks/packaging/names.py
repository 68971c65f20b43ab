"""Names of the packages of the driver and the toolkit: what to ask for, and what is recognised in a closure."""

from __future__ import annotations

import re

from provisioner.errors import LockError
from provisioner.model.lock import Role
from provisioner.tasks.packaging.versions import branch, is_driver, upstream

TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""Always at four equal versions: apt can't resolve an older one from the top package alone
(NVIDIA/nvidia-container-toolkit#1100)."""

OWN_VERSION = frozenset({"nvidia-modprobe", "nvidia-persistenced", "nvidia-settings", "nvidia-xconfig", "libxnvctrl0"})
"""Tools with a source package of their own in Debian: nvidia-modprobe 535.161.07 and nvidia-persistenced 535.171.04
belong to the closure of driver 535.216.03. NVIDIA's repository builds them with the driver."""

STACK = re.compile(
    r"(.*-)?nvidia(-.*)?|libnvidia-.*|libcuda1(-.*)?|libcudadebugger1|libnvcuvid1|libnvoptix1|libnvsdm(-.*)?|"
    r"libnvfm.*|nvlsm|cuda-drivers(-.*)?|libxnvctrl0|kmod-nvidia.*|linux-modules-nvidia-.*|"
    r"xserver-xorg-video-nvidia.*|firmware-nvidia-.*|glx-alternative-nvidia"
)
"""Names that belong to the driver's stack, in NVIDIA's repositories, Debian's and Ubuntu's archives."""

MODULE = re.compile(
    r"nvidia-(open-)?kernel-(open-)?(dkms|source)|nvidia-open-kernel-support|nvidia-dkms(-.*)?|kmod-nvidia.*|"
    r"nvidia-open(-\d+)?|cuda-drivers(-\d+)?|nvidia-headless-.*"
)
"""Packages that bring, or lead to, a kernel module: of the two flavours only one can be installed."""

AUTOMATIC_UPDATE_PREFIXES = (
    "nvidia-",
    "libnvidia-",
    "libcuda",
    "cuda-",
    "xserver-xorg-video-nvidia-",
    "firmware-nvidia-",
    "linux-modules-nvidia-",
)
"""What unattended-upgrades must leave alone, whatever the lock names."""


def role(name: str, version: str, driver: str) -> Role:
    """What a package of a closure is: of the toolkit, of the driver (held), or an ordinary dependency."""
    if name in TOOLKIT:
        return "toolkit"
    if upstream(version) == driver or STACK.fullmatch(name):
        return "driver"
    return "dependency"


def built_from_driver(name: str, version: str) -> bool:
    """Whether the package must carry the driver's own version: its version looks like one, its name is of the
    stack, and it isn't one of the tools that are released by themselves."""
    return name not in (*TOOLKIT, *OWN_VERSION) and bool(STACK.fullmatch(name)) and is_driver(version)


def top_packages(family: str, source: str, flavour: str, driver: str) -> tuple[tuple[str, ...], ...]:
    """Sets of packages to ask for, the preferred one first; the lock takes the first that the repositories have.

    Raises LockError for a combination that doesn't exist.
    """
    number, opened = branch(driver), flavour == "open"
    if family == "debian" and source == "nvidia":
        # Suffixed names end at 580 on Ubuntu; from 590 only the plain ones are left (NVIDIA's version locking guide).
        name = "nvidia-open" if opened else "cuda-drivers"
        return ((f"{name}-{number}",), (name,))
    if family == "debian" and source == "debian":
        module = "nvidia-open-kernel-dkms" if opened else "nvidia-kernel-dkms"
        return ((module, "libcuda1", "nvidia-smi", "nvidia-persistenced", "firmware-nvidia-gsp"),)
    if family == "debian" and source == "ubuntu":
        sets = []
        for kind in (f"{number}-server", number):
            module = f"{kind}-open" if opened else kind
            sets.append((f"nvidia-headless-no-dkms-{module}", f"nvidia-dkms-{module}", f"nvidia-utils-{kind}"))
        return tuple(sets)
    if family == "rhel" and source == "nvidia":
        return (("nvidia-open",), ("kmod-nvidia-open-dkms", "nvidia-driver-cuda")) if opened else (("cuda-drivers",),)
    raise LockError(
        f"there are no driver packages of source {source!r} for {family} systems",
        remedy="set driver.source to nvidia, debian (Debian only) or ubuntu (Ubuntu only)",
    )
