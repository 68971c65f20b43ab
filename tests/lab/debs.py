"""Debian packages made from a description, with dpkg-deb."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.engine import run


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o644
    #: Set for a symbolic link instead of a regular file.
    link: str | None = None


@dataclass(frozen=True)
class Deb:
    """One binary package; relation fields as in a control file."""

    name: str
    version: str
    files: Mapping[str, File] = field(default_factory=dict)
    depends: str = ""
    conflicts: str = ""
    provides: str = ""
    section: str = "non-free/kernel"
    description: str = ""
    #: Maintainer script name (postinst, prerm …) → its text without the first line.
    scripts: Mapping[str, str] = field(default_factory=dict)
    conffiles: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}_amd64.deb"

    def control(self) -> str:
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "Test lab <lab@invalid>",
            "Section": self.section,
            "Priority": "optional",
            "Depends": self.depends,
            "Conflicts": self.conflicts,
            "Replaces": self.conflicts,
            "Provides": self.provides,
            "Description": self.description or f"{self.name} (stand-in of the test lab)",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def build(deb: Deb, folder: Path) -> Path:
    """Write ``deb`` into ``folder`` and return the file's path."""
    target = folder / deb.filename
    with tempfile.TemporaryDirectory(prefix="provision-lab-deb-") as name:
        tree = Path(name) / "tree"
        control = tree / "DEBIAN"
        control.mkdir(parents=True)
        tree.chmod(0o755)
        (control / "control").write_text(deb.control())
        if deb.conffiles:
            (control / "conffiles").write_text("".join(f"{path}\n" for path in deb.conffiles))
        for script, text in deb.scripts.items():
            (control / script).write_text(f"#!/bin/sh\nset -e\n{text}")
            (control / script).chmod(0o755)
        for path, file in deb.files.items():
            at = tree / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            if file.link is not None:
                at.symlink_to(file.link)
                continue
            at.write_bytes(file.content)
            at.chmod(file.mode)
        run(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, target])
    return target
