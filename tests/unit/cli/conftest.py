"""A site whose session answers from given plans and results, in place of hosts."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import provisioner
from provisioner.cli import options
from provisioner.cli.main import run
from provisioner.model.inventory import Connection, Host
from provisioner.model.lock import Closure, Lock, LockedPackage
from provisioner.model.plan import Plan
from provisioner.model.result import RunResult
from tests.unit.report import samples


@dataclass
class Site:
    """What the session will answer, and what was asked of it."""

    plan: Plan = field(default_factory=samples.site)
    result: RunResult = field(default_factory=lambda: samples.result(samples.changed(1)))
    facts: Mapping[str, Any] = field(default_factory=dict)
    lock_changed: bool = True
    calls: list[tuple[str, Any]] = field(default_factory=list)
    during: Callable[[], None] = lambda: None

    def called(self) -> list[str]:
        return [name for name, _ in self.calls]


class Session:
    """The part of the engine's session that commands use."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.hosts = tuple(Host(name, Connection(name)) for name in ("gpu01", "gpu02"))

    def plan(self, stage: str | None = None) -> Plan:
        self._site.calls.append(("plan", stage))
        self._site.during()
        return self._site.plan

    def apply(
        self, plan: Plan | None = None, *, max_failures: int = 0, stage: str | None = None, yes: bool
    ) -> RunResult:
        self._site.calls.append(("apply", plan))
        self._site.during()
        return self._site.result

    def facts(self) -> Mapping[str, Any]:
        return self._site.facts

    def lock(self, check: bool = False) -> Any:
        package = LockedPackage("nvidia-open", "580.95.05-1", "amd64", "driver")
        closure = Closure("debian12", "amd64", "nvidia", "580.95.05", "open", "1.18.0", ("nvidia-open",), (package,))
        return SimpleNamespace(
            lock=Lock((closure,)),
            text="",
            changed=self._site.lock_changed,
            differences=("debian12: nvidia-open 570 → 580",) if self._site.lock_changed else (),
            path=Path("prod.lock"),
        )

    def write_lock(self, outcome: Any) -> None:
        self._site.calls.append(("write_lock", outcome.path))

    def exec(self, command: str) -> RunResult:
        self._site.calls.append(("exec", command))
        return self._site.result

    def stop(self) -> None:
        self._site.calls.append(("stop", None))

    def close(self) -> None:
        self._site.calls.append(("close", None))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Puts the stand-in where commands find the api."""
    made = Site()

    def opening(path: Path, **how: Any) -> Session:
        made.calls.append(("open", {"path": path, **how}))
        return Session(made)

    api = SimpleNamespace(
        open=opening,
        Options=lambda **how: how,
        task_catalogue=lambda: [
            ("file", "A file with a given content.", "A file with a given content.", [("path", "str", True)])
        ],
    )
    monkeypatch.setitem(sys.modules, "provisioner.api", api)
    monkeypatch.setattr(provisioner, "api", api, raising=False)
    monkeypatch.setattr(options, "inventory_path", lambda argument=None: Path(argument or "prod.toml"))
    return made


@dataclass(frozen=True)
class Said:
    """How a command line ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def provision(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs one command line in this process, without a terminal."""

    def call(*arguments: str) -> Said:
        code = run(arguments)
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return call


class Terminal(io.StringIO):
    """Text that claims to come from a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a person answer."""

    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal(text))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "dumb")

    return give
