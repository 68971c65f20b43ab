"""Task `service`: a systemd unit enabled, running, and running with what lies on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, Literal

from provisioner.errors import PlaybookError
from provisioner.facts.host import IdentityProbe
from provisioner.facts.services import Inputs, InputsProbe, Unit, UnitProbe, inputs_script, stamp_path
from provisioner.model.action import Action, Run, Service
from provisioner.model.change import Change, Disruption, Finding, Kind
from provisioner.model.fact import Facts, Probe
from provisioner.quoting import quote
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task, task

Step = Literal["started", "restarted", "stopped"]


@task("service")
class ServiceUnit(Task):
    """A systemd unit that is enabled or not, runs or not, and runs with what now lies on the disk.

    `restart_on` names files (or folders) that the service reads. It is restarted when one of them differs from
    what it was at the last restart by us, or, where no such restart is on record, changed after the service
    started. That is read from the host, so a run that dies between writing and restarting loses nothing. A unit
    file that systemd hasn't read yet leads to a daemon-reload. Fields that aren't given stay as they are. A masked
    unit stays masked unless `masked = false` says otherwise; drop-ins aren't touched. Without a running systemd
    (an image being built) units are enabled, not started.

        [[stages.tasks]]
        task = "service"
        unit = "chrony.service"
        enabled = true
        state = "started"
        restart_on = ["/etc/chrony/chrony.conf", "/etc/chrony/conf.d"]
    """

    unit: str
    enabled: bool | None = None
    state: Literal["started", "stopped"] | None = None
    masked: bool | None = None
    restart_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.unit or "/" in self.unit or self.unit.startswith("-"):
            raise PlaybookError(f"{self.unit!r} is no unit name", remedy='write it as "NAME.service"')
        if self.masked and (self.enabled or self.state == "started"):
            raise PlaybookError(f"{self.unit} can't be masked and enabled or started")
        for path in self.restart_on:
            if not path.startswith("/"):
                raise PlaybookError(f"restart_on of {self.unit}: {path!r} isn't an absolute path")

    @property
    def _name(self) -> str:
        return self.unit if "." in self.unit else f"{self.unit}.service"

    @property
    def _inputs(self) -> InputsProbe:
        return InputsProbe(self._name, self.restart_on)

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield IdentityProbe()
        yield UnitProbe(self._name)
        if self.restart_on:
            yield self._inputs

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        systemd = facts.need(IdentityProbe()).systemd
        unit = facts.get(UnitProbe(self._name))
        inputs = facts.need(self._inputs) if self.restart_on else None
        if unit is None:
            yield from self._announced(systemd, ctx)
            return
        enable = self._enabling(unit)
        masking = self.masked if self.masked is not None and self.masked != unit.masked else None
        unit_files = [path for path in ctx.pending if self._belongs(path)]
        reload = systemd and (unit.reload_needed or bool(unit_files))
        stale = [ctx.pending[path] for path in ctx.pending if self._is_input(path)]
        state = self._next_state(unit, inputs, bool(stale)) if systemd else None
        if enable is None and masking is None and state is None and not reload:
            return
        reasons = [
            *(["masked" if masking else "unmasked"] if masking is not None else []),
            *(["enabled" if enable else "disabled"] if enable is not None else []),
            *(["unit files read anew"] if reload else []),
            *([self._why(state, unit, bool(stale))] if state else []),
        ]
        change = Change(
            subject=self._name,
            summary=", ".join(reasons),
            kind=Kind.UPDATE,
            actions=self._actions(enable, masking, state, reload),
            disruption=self._disruption(enable, masking, state, reload, systemd),
            disrupts=self._disrupts(enable, masking, state, reload, systemd),
            requires=tuple(dict.fromkeys([*stale, *(ctx.pending[path] for path in unit_files)])),
        )
        if unit.masked and self.masked is None and (enable or state == "started"):
            change = change.defer(f"{self._name} is masked, which somebody meant", f"systemctl unmask {self._name}")
        yield change

    def _announced(self, systemd: bool, ctx: Context) -> Iterator[Change]:
        """No such unit yet: a package or a file of this run brings it, or the change will fail and say so."""
        wanted = [word for word in ("enabled" if self.enabled else "", self.state or "") if word and word != "stopped"]
        if not wanted:
            return
        state: Step | None = "started" if self.state == "started" and systemd else None
        yield Change(
            subject=self._name,
            summary=f"{', '.join(wanted)}, when the unit is there",
            kind=Kind.UPDATE,
            actions=self._actions(self.enabled, None, state, systemd),
            disruption=self._disruption(self.enabled, None, state, systemd, systemd),
            disrupts=self._disrupts(self.enabled, None, state, systemd, systemd),
            requires=tuple(dict.fromkeys(change for path, change in ctx.pending.items() if self._belongs(path))),
            provisional=True,
        )

    def _enabling(self, unit: Unit) -> bool | None:
        if self.enabled and not unit.is_enabled:
            return True
        if self.enabled is False and unit.enabled in ("enabled", "enabled-runtime"):
            return False
        return None

    def _next_state(self, unit: Unit, inputs: Inputs | None, pending: bool) -> Step | None:
        if self.state == "stopped":
            return "stopped" if unit.runs else None
        if self.state == "started" and not unit.runs:
            return "started"
        if unit.runs and inputs is not None and (pending or outdated(unit, inputs)):
            return "restarted"
        return None

    def _why(self, state: str, unit: Unit, pending: bool) -> str:
        if state != "restarted":
            return f"{state} (it is {unit.active or 'not running'})"
        return "restarted: " + ("what it reads changes" if pending else "what it reads changed since it started")

    def _actions(
        self, enable: bool | None, masking: bool | None, state: Step | None, reload: bool
    ) -> tuple[Action, ...]:
        step = Service(self._name, enabled=enable, state=state, daemon_reload=reload, masked=masking)
        if not self.restart_on or state not in ("started", "restarted"):
            return (step,)
        stamp = quote(stamp_path(self._name))
        # Summed before the restart: what is written during it isn't what the service read.
        sums = f'mkdir -p "$(dirname {stamp})"\n{{\n{inputs_script(self.restart_on)}}} >{stamp}.new\n'
        return (
            Run(sums, why=f"note what {self._name} reads"),
            step,
            Run(f"mv -f {stamp}.new {stamp}", why=f"note that {self._name} runs with it"),
        )

    def _disrupts(
        self, enable: bool | None, masking: bool | None, state: str | None, reload: bool, systemd: bool
    ) -> str:
        if state in ("restarted", "stopped"):
            return f"{'restarts' if state == 'restarted' else 'stops'} {self._name}"
        # systemctl enable, disable, mask and unmask make systemd reload, too.
        return "daemon-reload" if systemd and (reload or enable is not None or masking is not None) else ""

    def _disruption(
        self, enable: bool | None, masking: bool | None, state: str | None, reload: bool, systemd: bool
    ) -> Disruption:
        disturbs = self._disrupts(enable, masking, state, reload, systemd)
        return Disruption.SERVICE if disturbs else Disruption.NONE

    def _belongs(self, path: str) -> bool:
        """Is it the unit's file or one of its drop-ins?"""
        pure = PurePosixPath(path)
        return "/systemd/system/" in path and self._name in (pure.name, pure.parent.name.removesuffix(".d"))

    def _is_input(self, path: str) -> bool:
        return any(path == read or path.startswith(f"{read.rstrip('/')}/") for read in self.restart_on)


def outdated(unit: Unit, inputs: Inputs) -> bool:
    """Does the service run with other inputs than those on the disk?

    The stamp of the last restart by us decides when it equals what is there. Otherwise times do: a restart by
    someone else after the last change is as good. A file that has gone leaves no time, so it counts as changed.
    """
    if inputs.stamp == inputs.now:
        return False
    if inputs.stamp is not None:
        gone = {line.split("  ", 1)[1] for line in inputs.now.splitlines() if line.startswith("absent ")}
        if any(line.split("  ", 1)[1] in gone and not line.startswith("absent ") for line in inputs.stamp.splitlines()):
            return True
    return unit.started is None or inputs.changed > unit.started
