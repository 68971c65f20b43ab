"""Files of ours that run on a host at boot: put there, and their units enabled, without disturbing what runs.

A unit is enabled by its link. `systemctl enable` would make systemd reload its configuration, which takes the
cards away from running containers (NVIDIA/nvidia-docker#1730), for something that only matters at the next boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.facts.files import FileProbe
from provisioner.model.action import Link, RemoveFile
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import Attributes
from provisioner.tasks.files.content import content_change

PROGRAMS = "/usr/local/libexec/provision"
"""Folder of our programs on a host."""
UNITS = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class BootFile:
    """A file rendered from the template `template` (with these extra values), owned by root."""

    path: str
    template: str
    mode: int = 0o644
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def probe(self) -> FileProbe:
        return FileProbe(self.path)

    def content(self, ctx: Context) -> str:
        """What it must hold."""
        return ctx.template(self.template, **dict(self.values))


def wants(unit: str) -> str:
    """Path of the link that starts a unit at boot."""
    return f"{UNITS}/multi-user.target.wants/{unit}"


def link_probe(unit: str) -> FileProbe:
    """Asks for that link."""
    return FileProbe(wants(unit), content=False)


def file_changes(files: Iterable[BootFile], facts: Facts, ctx: Context) -> Iterator[Finding]:
    """The changes that put these files there. A masked unit is left alone, with a note."""
    for file in files:
        have = facts.get(file.probe)
        if have is not None and have.link == "/dev/null":
            yield Note(file.path, f"{file.path} is a link to /dev/null: somebody masked it, it stays as it is")
            continue
        yield from content_change(file.path, have, file.content(ctx), Attributes(file.mode, "root", "root"))


def enabling(unit: str, facts: Facts, requires: Sequence[str] = ()) -> Iterator[Change]:
    """The change that lets a unit of ours start at the next boot."""
    have = facts.get(link_probe(unit))
    target = f"{UNITS}/{unit}"
    if have is None or have.link != target:
        yield Change(
            subject=f"{unit} enabled",
            summary=f"{unit} starts at boot",
            kind=Kind.CREATE if have is None else Kind.UPDATE,
            actions=(Link(wants(unit), target),),
            requires=tuple(requires),
        )


def disabling(unit: str, facts: Facts) -> Iterator[Change]:
    """The change that keeps a unit of ours from starting at the next boot."""
    if facts.get(link_probe(unit)) is not None:
        yield Change(
            subject=f"{unit} enabled",
            summary=f"{unit} no longer starts at boot",
            kind=Kind.DELETE,
            actions=(RemoveFile(wants(unit)),),
        )


def subjects(found: Iterable[Finding]) -> tuple[str, ...]:
    """Subjects of the changes among findings, for `requires`."""
    return tuple(finding.subject for finding in found if isinstance(finding, Change))
