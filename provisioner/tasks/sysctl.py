"""Task `sysctl`: a kernel parameter, now and at every boot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.facts.host import IdentityProbe
from provisioner.facts.sysctl import SysctlProbe, normal, proc_path
from provisioner.model.action import Run
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts, Probe
from provisioner.quoting import quote
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import Attributes
from provisioner.tasks.files.content import content_change
from provisioner.tasks.task import Task, task


@task("sysctl")
class SysctlTask(Task):
    """A kernel parameter, now and at every boot.

    The value is kept in a file of its own below /etc/sysctl.d and set now. A later file that says otherwise isn't
    touched but named; `order` (two digits, 90) decides the place among the files. A parameter that the kernel
    doesn't have yet (its module isn't loaded) is only written down.

        [[stages.tasks]]
        task = "sysctl"
        key = "vm.max_map_count"
        value = 262144
    """

    key: str
    value: str | int
    order: int = 90

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.:/*@-]+", self.key) or ".." in self.key or self.key.startswith("/"):
            raise PlaybookError(f"{self.key!r} is no kernel parameter")
        if "\n" in str(self.value):
            raise PlaybookError(f"the value of {self.key} has a line break in it")
        if not 0 <= self.order <= 99:
            raise PlaybookError(f"order of {self.key} is {self.order}", why="it is two digits of a file name, 0 to 99")

    @property
    def path(self) -> str:
        """The file that holds it."""
        return f"/etc/sysctl.d/{self.order:02d}-provision-{self.key.replace('/', '.')}.conf"

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield IdentityProbe()
        yield SysctlProbe(self.key)
        yield FileProbe(self.path)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.need(SysctlProbe(self.key))
        want = normal(str(self.value))
        yield from content_change(
            self.path, facts.get(FileProbe(self.path)), f"{self.key} = {want}\n", Attributes(), summary=f"= {want}"
        )
        later = [(path, value) for path, value in have.settings if path.rsplit("/", 1)[-1] > self.path[14:]]
        if later and later[-1][1] != want:
            path, value = later[-1]
            yield Note(self.key, f"{path} sets {self.key} = {value} and is read after {self.path}: change it there")
            return
        if not facts.need(IdentityProbe()).systemd:
            return
        if have.now is None:
            yield Note(self.key, f"this kernel has no {self.key} now; {self.path} holds it for when it has")
        elif have.now != want:
            yield Change(
                subject=self.key,
                summary=f"{have.now} → {want}",
                kind=Kind.RUN,
                before=f"{have.now}\n",
                after=f"{want}\n",
                actions=(
                    Run(f"printf '%s\\n' {quote(want)} >{quote(proc_path(self.key))}", why=f"set {self.key} now"),
                ),
            )
