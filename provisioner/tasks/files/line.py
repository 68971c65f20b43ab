"""Task `line`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.model.change import Finding
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import PathTask
from provisioner.tasks.files.content import announced, content_change
from provisioner.tasks.task import task


@task("line")
class Line(PathTask):
    """One line of a file that otherwise belongs to someone else.

    Without `match` the line itself must be there. With `match` (a Python regular expression, searched in each
    line) exactly one of the matching lines stays and reads `line`. A line that isn't there is put behind the last
    one that matches `after`, else at the end. `state = "absent"` removes the line and all that match. A missing
    file is made only with `create = true`; otherwise a package of an earlier stage must bring it.

        [[stages.tasks]]
        task = "line"
        path = "/etc/ssh/sshd_config"
        match = '^\\s*#?\\s*PermitRootLogin\\b'
        line = "PermitRootLogin no"
    """

    line: str = ""
    match: str | None = None
    after: str | None = None
    state: Literal["present", "absent"] = "present"
    create: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if "\n" in self.line or "\r" in self.line:
            raise PlaybookError(f"the line for {self.path} has a line break in it", remedy="use one task for each line")
        if not self.line and (self.state == "present" or self.match is None):
            raise PlaybookError(f"the task for {self.path} says no line")
        for name, pattern in (("match", self.match), ("after", self.after)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise PlaybookError(f"{name} = {pattern!r} is no regular expression", why=str(error)) from error

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield FileProbe(self.path)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(FileProbe(self.path))
        missing = have is None or have.content is None
        if have is None and not self.create:
            if self.state == "present":
                yield announced(self.path, f"line {self.line!r}")
            return
        content = "" if have is None or have.content is None else have.content
        if missing and self.state == "absent":
            return
        yield from content_change(self.path, have, self.edit(content), self.attributes, shared=True)

    def edit(self, content: str) -> str:
        """The content with the line present once, or gone; every other byte as it was."""
        end = "\r\n" if "\r\n" in content else "\n"
        lines = content.split("\n")
        tail = lines.pop() if lines[-1] == "" else None
        texts = [text.removesuffix("\r") for text in lines]
        ours = [number for number, text in enumerate(texts) if self._is_ours(text)]
        if self.state == "absent":
            kept = [line for number, line in enumerate(lines) if number not in ours]
            ended = tail is not None or len(lines) - 1 in ours
            return "\n".join(kept) + ("\n" if ended and kept else "")
        if ours and texts[ours[0]] == self.line and (self.match is None or len(ours) == 1):
            return content
        written = self.line + end.removesuffix("\n")
        if ours:
            lines[ours[0]] = self.line if tail is None and ours[0] == len(lines) - 1 else written
            lines = [line for number, line in enumerate(lines) if number not in ours[1:]]
            return "\n".join(lines) + ("" if tail is None else "\n")
        places = [number for number, text in enumerate(texts) if self.after and re.search(self.after, text)]
        at = places[-1] + 1 if places else len(lines)
        if tail is None and lines and at == len(lines):
            lines[-1] += end.removesuffix("\n")
        lines.insert(at, written)
        return "\n".join(lines) + ("" if tail is None and at < len(lines) - 1 else "\n")

    def _is_ours(self, text: str) -> bool:
        return (self.line != "" and text == self.line) or (
            self.match is not None and re.search(self.match, text) is not None
        )
