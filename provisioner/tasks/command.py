"""Task `command`: what no other task can do, guarded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileProbe
from provisioner.facts.guards import GuardProbe
from provisioner.model.action import Run
from provisioner.model.change import Change, Disruption, Finding, Kind
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task, task


@task("command")
class Command(Task):
    """A POSIX sh script as root, run only where its guards say that it is needed.

    At least one guard is required, so that a second run does nothing: `creates` (a path that is there afterwards),
    `unless` (a test that holds afterwards), `onlyif` (a test that must hold before, and no longer does afterwards,
    unless another guard is given too). Guards are read with every observation: they must only read, end soon, and
    fail by a status of their own; a missing command makes them unknown, and the plan stops there. Variables are put
    in as they are: quote them, `{{ host.name | quote }}`. Say with `disruption` what the script disturbs.

        [[stages.tasks]]
        task = "command"
        summary = "accounting mode on"
        run = "nvidia-smi --accounting-mode=1"
        onlyif = "command -v nvidia-smi"
        unless = "nvidia-smi --query-gpu=accounting.mode --format=csv,noheader | grep -qv Disabled"
        disruption = "none"
    """

    run: str
    summary: str = ""
    creates: str | None = None
    unless: str | None = None
    onlyif: str | None = None
    disruption: Literal["none", "service", "drain", "reboot"] = "service"
    disrupts: str = ""
    timeout: int = 300
    guard_timeout: int = 20

    def __post_init__(self) -> None:
        if not self.run.strip():
            raise PlaybookError("a command task has nothing to run")
        if self.creates is None and self.unless is None and self.onlyif is None:
            raise PlaybookError(
                f"command {self._label!r} has no guard",
                why="without one it would run every time",
                remedy="give creates, unless or onlyif",
            )
        if self.creates is not None and not self.creates.startswith("/"):
            raise PlaybookError(f"creates = {self.creates!r} isn't an absolute path")
        if self.timeout < 1 or not 1 <= self.guard_timeout <= 60:
            raise PlaybookError(f"command {self._label!r}: timeout is 1 or more, guard_timeout 1 to 60 seconds")

    @property
    def _label(self) -> str:
        return self.summary or self.run.strip().splitlines()[0]

    def _guard(self, test: str) -> GuardProbe:
        return GuardProbe(test, self.guard_timeout)

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        if self.creates is not None:
            yield FileProbe(self.creates, content=False)
        yield from (self._guard(test) for test in (self.unless, self.onlyif) if test is not None)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        if self.creates is not None and facts.get(FileProbe(self.creates, content=False)) is not None:
            return
        # onlyif first: where it doesn't hold, unless may ask for what isn't there.
        if self.onlyif is not None and not facts.need(self._guard(self.onlyif)):
            return
        if self.unless is not None and facts.need(self._guard(self.unless)):
            return
        disruption = Disruption[self.disruption.upper()]
        yield Change(
            subject=self._label,
            summary=self.run.strip().splitlines()[0] if self.summary else "run",
            kind=Kind.RUN,
            after=self.run if self.run.endswith("\n") else f"{self.run}\n",
            actions=(Run(self.run, why=self._label, timeout=self.timeout),),
            disruption=disruption,
            disrupts="" if disruption is Disruption.NONE else self.disrupts or f"runs `{self._label}`",
        )
