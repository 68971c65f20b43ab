"""Task `kernel.modules`: modules loaded at boot and now, others kept out, with their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import IdentityProbe
from provisioner.facts.kmod import KernelModulesProbe
from provisioner.model.action import RemoveFile, Run
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts, Probe
from provisioner.quoting import quote
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import Attributes
from provisioner.tasks.files.content import content_change
from provisioner.tasks.task import Task, task


@task("kernel.modules")
class KernelModulesTask(Task):
    """Kernel modules loaded at every boot and now; others kept out; parameters for both.

    `file` names the two files, /etc/modules-load.d/provision-FILE.conf and /etc/modprobe.d/provision-FILE.conf.
    What is to be kept out and is loaded now goes with the next boot; where it is in the initramfs, build that anew
    (a `command` task). Parameters count when a module is loaded the next time. The driver's own modules belong to
    the task `modules`.

        [[stages.tasks]]
        task = "kernel.modules"
        file = "rdma"
        load = ["ib_uverbs", "rdma_ucm"]
        keep_out = ["pcspkr"]
        options = { mlx5_core = "prof_sel=2" }
    """

    file: str
    load: tuple[str, ...] = ()
    keep_out: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", self.file):
            raise PlaybookError(f"file = {self.file!r} is no part of a file name", why="small letters, digits, - _ .")
        for name in (*self.load, *self.keep_out, *self.options):
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise PlaybookError(f"{name!r} is no name of a kernel module")
        if "\n" in "".join(self.options.values()):
            raise PlaybookError("the parameters of a kernel module have a line break in them")
        both = sorted({*map(underscored, self.load)} & {*map(underscored, self.keep_out)})
        if both:
            raise PlaybookError(f"{', '.join(both)} can't be loaded and kept out")

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and content of both files; an empty one isn't wanted."""
        kept = "".join(f"blacklist {name}\ninstall {name} /bin/false\n" for name in self.keep_out)
        given = "".join(f"options {name} {text}\n" for name, text in self.options.items())
        return (
            (f"/etc/modules-load.d/provision-{self.file}.conf", "".join(f"{name}\n" for name in self.load)),
            (f"/etc/modprobe.d/provision-{self.file}.conf", kept + given),
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(map(underscored, (*self.load, *self.keep_out)))

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield IdentityProbe()
        yield from (FileProbe(path) for path, _ in self.files)
        yield KernelModulesProbe(self._names)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        written = [path for path, content in self.files if content]
        for path, content in self.files:
            yield from self._file(path, content, facts.get(FileProbe(path)))
        if not facts.need(IdentityProbe()).systemd:
            return
        modules = facts.need(KernelModulesProbe(self._names))
        for name in map(underscored, self.load):
            if name not in modules.loaded:
                yield Change(
                    subject=name,
                    summary="loaded",
                    kind=Kind.RUN,
                    actions=(Run(f"modprobe {quote(name)}", why=f"load {name}", timeout=60),),
                    provisional=name not in modules.available,
                    requires=tuple(path for path in written if "modprobe.d" in path and name in self.options),
                )
        for name in map(underscored, self.keep_out):
            if name in modules.loaded:
                yield Note(name, f"{name} is loaded now and stays so until the next boot")

    @staticmethod
    def _file(path: str, content: str, have: FileState | None) -> Iterator[Finding]:
        if content:
            yield from content_change(path, have, content, Attributes())
        elif have is not None:
            yield Change(path, "removed", Kind.DELETE, (RemoveFile(path),), before=have.content)


def underscored(name: str) -> str:
    """A module's name as the kernel writes it."""
    return name.replace("-", "_")
