"""Task `directory`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from provisioner.facts.files import FileProbe
from provisioner.model.action import MakeDirectory
from provisioner.model.change import Change, Finding, Kind, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import PathTask
from provisioner.tasks.files.content import link_notes
from provisioner.tasks.task import task


@task("directory")
class Directory(PathTask):
    """A folder with this mode and owner; missing parents are made.

    Attributes that aren't given stay as they are; a new folder gets 0755 root:root. What is in the folder isn't
    touched, and no folder is ever removed.

        [[stages.tasks]]
        task = "directory"
        path = "/srv/models"
        mode = "2775"
        owner = "root"
        group = "ml"
    """

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield FileProbe(self.path, content=False)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(FileProbe(self.path, content=False))
        if have is not None and have.kind != "directory":
            what = f"a link to {have.link}, where no folder is" if have.link else "a file, not a folder"
            yield Refusal(
                subject=self.path,
                what=f"{self.path} is {what}",
                why="what is there isn't taken away for a folder",
                remedy="move it away by hand, or let the task name another path",
            )
            return
        want = self.attributes
        differing = want.differing(have) if have else ("new folder",)
        if differing:
            yield Change(
                subject=self.path,
                summary="; ".join(differing),
                kind=Kind.UPDATE if have else Kind.CREATE,
                actions=(MakeDirectory(self.path, mode=want.mode, owner=want.owner, group=want.group),),
                notes=link_notes(self.path, have),
            )
