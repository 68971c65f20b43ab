"""Task `file`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.model.action import RemoveFile
from provisioner.model.change import Change, Finding, Kind
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import PathTask
from provisioner.tasks.files.content import attribute_change, content_change, refuse_other_kind
from provisioner.tasks.task import task


@task("file")
class File(PathTask):
    """A file with this content, mode and owner, or none.

    Content comes from `content` (text, rendered with the host's variables) or from `source` (a file in `files/`
    beside the playbook, byte for byte); with neither, only mode and owner are kept, and a missing file is made
    empty. Attributes that aren't given stay as they are; a new file gets 0644 root:root, or 0600 when a secret
    stands in it, and a file that everybody may read loses that when it gets one. A link is followed: the file it
    leads to is written. `state = "absent"` removes a file or a link itself, never a folder.

        [[stages.tasks]]
        task = "file"
        path = "/etc/motd"
        content = "{{ host.name }}: ask the platform team first\\n"
        mode = "0644"

        [[stages.tasks]]
        task = "file"
        path = "/etc/cron.d/old-gpu-check"
        state = "absent"
    """

    content: str | None = None
    source: str | None = None
    state: Literal["present", "absent"] = "present"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.content is not None and self.source is not None:
            raise PlaybookError(f"file {self.path} has content and source", remedy="keep one of the two")
        if self.state == "absent" and (self.content is not None or self.source is not None):
            raise PlaybookError(f"file {self.path} is to be absent and has content", remedy="keep one of the two")

    @property
    def _probe(self) -> FileProbe:
        managed = self.content is not None or self.source is not None
        return FileProbe(self.path, content=managed or self.state == "absent")

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield self._probe

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(self._probe)
        if self.state == "absent":
            obstacle = refuse_other_kind(self.path, have)
            if have is not None and (have.link is not None or obstacle is None):
                yield Change(
                    subject=self.path,
                    summary=f"link to {have.link} removed" if have.link else "removed",
                    kind=Kind.DELETE,
                    actions=(RemoveFile(self.path),),
                    before=None if have.link else have.content,
                )
            elif obstacle:
                yield obstacle
            return
        want = self.content if self.source is None else ctx.asset(self.source)
        if want is not None:
            yield from content_change(self.path, have, want, self.attributes)
        elif have is None:
            yield from content_change(self.path, None, "", self.attributes, summary="new empty file")
        else:
            obstacle = refuse_other_kind(self.path, have)
            if obstacle:
                yield obstacle
            else:
                yield from attribute_change(self.path, have, self.attributes)
