"""A host in memory for the engine's tests: scripts are answered from Python, nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from provisioner.engine.observe import ALWAYS, GenerationProbe
from provisioner.engine.planning import HostSteps, Step
from provisioner.errors import ProvisionError
from provisioner.facts.host import Identity, IdentityProbe, System, SystemProbe
from provisioner.facts.merge import unique
from provisioner.facts.workload import Workload, WorkloadProbe
from provisioner.model.action import Run
from provisioner.model.change import Change, Disruption, Finding, Kind
from provisioner.model.fact import Fact, Facts, Known, Output, Probe
from provisioner.model.inventory import Connection, Host
from provisioner.tasks.context import Context, Options
from provisioner.tasks.task import Task, task
from provisioner.transport.executor import Completed

DEBIAN = System("debian", "12", (), "bookworm", "6.1.0-18-amd64", "x86_64", "gpu01")


class NoRenderer:
    """Renders nothing."""

    def text(self, source: str, values: Mapping[str, Any], name: str) -> str:
        return source

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        return name

    def asset(self, name: str) -> str:
        return name


def context(name: str = "gpu01", **options: bool) -> Context:
    """A context without variables."""
    host = Host(name, Connection("127.0.0.1"))
    return Context(host, NoRenderer(), options=Options(**options), inventory="site.toml")


IDLE: Fact[Workload] = Known(Workload())


def facts(workload: Fact[Workload] = IDLE, more: Mapping[Probe[Any], Fact[Any]] | None = None) -> Facts:
    """Facts of an idle host, unless told otherwise."""
    identity = Identity("a" * 32, "boot-1", 100, True)
    known: dict[Probe[Any], Fact[Any]] = {
        IdentityProbe(): Known(identity),
        SystemProbe(): Known(DEBIAN),
        WorkloadProbe(): workload,
    }
    return Facts("gpu01", known | dict(more or {}))


@dataclass(frozen=True)
class FlagProbe(Probe[str]):
    """A named value that a host has, or not."""

    name: str

    @property
    def key(self) -> str:
        return f"flag {self.name}"

    def script(self) -> str:
        return f"flag {self.name}"

    def parse(self, output: Output) -> str:
        return output.text


@task("test.flag")
class Flag(Task):
    """Keep a flag of the host at a value."""

    flag: str
    value: str = "up"
    disruption: int = 0

    def probes(self, ctx: Context) -> Iterator[Probe[Any]]:
        yield FlagProbe(self.flag)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(FlagProbe(self.flag))
        if have != self.value:
            yield Change(
                self.flag,
                f"{self.flag} → {self.value}",
                Kind.UPDATE,
                (Run(f"setflag {self.flag} {self.value}", "set it"),),
                disruption=Disruption(self.disruption),
                disrupts="shakes the host" if self.disruption else "",
            )


def steps(name: str, *tasks: tuple[str, Task], **options: bool) -> HostSteps:
    """What is desired of host `name`: (stage, task) pairs."""
    return HostSteps(context(name, **options), tuple(Step(stage, one.name, one) for stage, one in tasks))


@dataclass
class World:
    """One host: flags that tasks read and change. `breaks` are flags that can't be set (the script fails),
    `lies` flags whose setting succeeds and does nothing. `error` is raised instead of an answer to a stage."""

    host: Host
    wanted: HostSteps
    flags: dict[str, str] = field(default_factory=dict)
    breaks: set[str] = field(default_factory=set)
    lies: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    error: ProvisionError | None = None
    unreachable: ProvisionError | None = None
    connections: int = 0
    execs: int = 0
    log: list[str] = field(default_factory=list)
    history: list[tuple[str, str]] = field(default_factory=list)

    def run(self, script: str, *, timeout: float) -> Completed:
        if self.unreachable is not None:
            raise self.unreachable
        self.connections = self.connections or 1
        self.execs += 1
        if "@stage-done" in script:
            self.log.append("stage")
            if self.error is not None:
                raise self.error
            return self._stage(script)
        self.log.append("observe")
        return self._observation()

    def close(self) -> None:
        self.log.append("close")

    def _stage(self, script: str) -> Completed:
        out = b""
        for number, (flag, value) in enumerate(re.findall(r"^setflag (\S+) (\S+)$", script, re.M), 1):
            self.history.append((self.host.name, flag))
            failed = flag in self.breaks
            said = b"it broke\n" if failed else b""
            out += b"@begin %d\n@end %d %d 0 0 %d\n" % (number, number, failed, len(said)) + said
            if failed:
                return Completed(0, out, b"")
            if flag not in self.lies:
                self.flags[flag] = value
        return Completed(0, out + b"@stage-done\n", b"")

    def _observation(self) -> Completed:
        asked = unique((*ALWAYS, GenerationProbe(), *self.wanted.probes()))
        out = b""
        for number, probe in enumerate(asked, 1):
            rc, text = self._answer(probe)
            out += b"@probe %d %d %d 0\n" % (number, rc, len(text.encode())) + text.encode()
        return Completed(0, out + b"@end %d\n" % len(asked), b"")

    def _answer(self, probe: Probe[Any]) -> tuple[int, str]:
        match probe:
            case FlagProbe(name):
                if name in self.unreadable:
                    return 1, ""
                return (0, self.flags[name]) if name in self.flags else (69, "")
            case IdentityProbe():
                return 0, "machine-1\nboot-1\n100\nyes\n"
            case SystemProbe():
                return 0, "6.1.0\nx86_64\ngpu01\nID=debian\nVERSION_ID=12\n"
            case WorkloadProbe():
                return 0, ""
            case _:
                return 69, ""
