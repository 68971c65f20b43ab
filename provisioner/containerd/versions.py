"""containerd's releases and the versions of its configuration file, as they were measured and read in its source.

The plugin names of version 1 and their full names are those of containerd's own migration
(`v1MigratePluginName` in cmd/containerd/server/config/config.go of containerd 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from provisioner.containerd.result import Refused
from provisioner.containerd.syntax import Path

CRI_V1 = "cri"
CRI_V2 = "io.containerd.grpc.v1.cri"
CRI_V3 = "io.containerd.cri.v1.runtime"
IMAGES_V3 = "io.containerd.cri.v1.images"
CRI_NAMES = frozenset({CRI_V1, CRI_V2, CRI_V3, IMAGES_V3})
"""What stands in `disabled_plugins` where the CRI plugin, or a part that it can't do without, is switched off."""

SHORT_NAMES = {
    "cri": CRI_V2,
    "cgroups": "io.containerd.monitor.v1.cgroups",
    "linux": "io.containerd.runtime.v1.linux",
    "scheduler": "io.containerd.gc.v1.scheduler",
    "bolt": "io.containerd.metadata.v1.bolt",
    "task": "io.containerd.runtime.v2.task",
    "opt": "io.containerd.internal.v1.opt",
    "restart": "io.containerd.internal.v1.restart",
    "tracing": "io.containerd.internal.v1.tracing",
    "otlp": "io.containerd.tracing.processor.v1.otlp",
    "aufs": "io.containerd.snapshotter.v1.aufs",
    "btrfs": "io.containerd.snapshotter.v1.btrfs",
    "devmapper": "io.containerd.snapshotter.v1.devmapper",
    "native": "io.containerd.snapshotter.v1.native",
    "overlayfs": "io.containerd.snapshotter.v1.overlayfs",
    "zfs": "io.containerd.snapshotter.v1.zfs",
}


@dataclass(frozen=True, order=True)
class Release:
    """A release of containerd."""

    major: int
    minor: int
    patch: int = 0

    @property
    def merges_imports(self) -> bool:
        """2.x merges the CRI table of a drop-in into that of the main file; 1.x replaces it."""
        return self.major >= 2

    @property
    def has_cdi(self) -> bool:
        """`enable_cdi` came with containerd 1.7."""
        return self >= Release(1, 7)

    @property
    def cdi_by_default(self) -> bool:
        """containerd 2 has `enable_cdi = true` unless told otherwise."""
        return self.major >= 2

    @property
    def newest_config(self) -> int:
        """The highest config version that this release reads."""
        if self.major < 2:
            return 2
        return 4 if self >= Release(2, 3) else 3

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def release(text: str) -> Release:
    """The release named in `text`: a version, or the output of `containerd --version`.

    Raises `Refused` where there is none, or one whose configuration isn't known here.
    """
    found = re.search(r"(?<![\d.])(\d{1,3})\.(\d{1,4})(?:\.(\d{1,4}))?", text)
    if not found:
        raise Refused(f"{text!r} isn't a containerd version.", "Give the version that `containerd --version` prints.")
    known = Release(int(found[1]), int(found[2]), int(found[3] or 0))
    if not Release(1, 5) <= known < Release(3, 0):
        raise Refused(
            f"containerd {known} reads its configuration in a way that isn't known here (1.5 to 2.x are).",
            "Install a containerd of 1.6, 1.7 or 2.x.",
        )
    return known


def full_name(short: str) -> str | None:
    """The full name of a plugin that version 1 calls `short`; None where there's none to be sure of."""
    if "." in short:
        return short
    if short.endswith("-service"):
        return f"io.containerd.service.v1.{short}"
    return SHORT_NAMES.get(short)


def cri_table(config_version: int) -> Path:
    """Where a file of this version keeps the settings of the CRI plugin's runtime side."""
    if config_version < 2:
        return ("plugins", CRI_V1)
    return ("plugins", CRI_V2 if config_version == 2 else CRI_V3)


def registry_table(config_version: int) -> Path:
    """Where a file of this version keeps the registries."""
    if config_version < 3:
        return (*cri_table(config_version), "registry")
    return ("plugins", IMAGES_V3, "registry")
