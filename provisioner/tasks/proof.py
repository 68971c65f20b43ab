"""For tests of tasks: facts made by hand, and the proof that a task settles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.model.change import Change, Finding, Note
from provisioner.model.fact import Absent, Fact, Facts, Known, Unknown
from provisioner.model.inventory import Connection, Host, Level, Value
from provisioner.tasks.context import Context, Options
from provisioner.tasks.task import Task

Given = Mapping[Any, Any]
"""Probe → value, None for absent, or an Unknown. (A mapping's key type is exact, so that `Probe` would refuse a
dict of one kind of probe.)"""


class Verbatim:
    """A renderer that leaves every text as it is; `files` answers for templates and assets, by name."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = dict(files or {})

    def text(self, source: str, values: Mapping[str, Any], name: str) -> str:
        return source

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        return self._files[name]

    def asset(self, name: str) -> str:
        return self._files[name]


def facts_of(values: Given, host: str = "host") -> Facts:
    """Facts of a host as a test wants them: a value is known, None is absent, an Unknown is itself.

    Probes that aren't mentioned are unknown, as on a host that wasn't asked.
    """
    return Facts(host, {probe: _fact(value) for probe, value in values.items()})


def _fact(value: Any) -> Fact[Any]:
    if value is None:
        return Absent()
    return value if isinstance(value, Known | Absent | Unknown) else Known(value)


def context_of(
    variables: Mapping[str, Any] | None = None, *, files: Mapping[str, str] | None = None, **more: Any
) -> Context:
    """A context of one host with these variables (dotted names). `files` as in Verbatim; `more`: Context's fields
    (`lock`, `options`, `repositories`, …)."""
    settings = {name: Value(value, Level.HOST, "a test") for name, value in (variables or {}).items()}
    host = Host("host", Connection("192.0.2.1"), vars=settings)
    return Context(host=host, renderer=Verbatim(files), **{"options": Options(), "inventory": "site.toml", **more})


def findings(task: Task, facts: Given, ctx: Context | None = None) -> list[Finding]:
    """All that the task says of these facts. Raises AssertionError when it reads what it didn't ask for."""
    ctx = ctx or context_of()
    asked = list(task.probes(ctx))
    unasked = [probe.key for probe in facts if probe not in asked]
    assert not unasked, f"{task.name} doesn't ask for {', '.join(unasked)}"
    return list(task.plan(facts_of(facts), ctx))


def changes(task: Task, facts: Given, ctx: Context | None = None) -> list[Change]:
    """The changes among `findings`. Raises AssertionError when the task refuses."""
    found = findings(task, facts, ctx)
    refused = [finding for finding in found if not isinstance(finding, Change | Note)]
    assert not refused, f"{task.name} refuses: {refused}"
    return [finding for finding in found if isinstance(finding, Change)]


def assert_settles(task: Task, *, before: Given, after: Given, ctx: Context | None = None) -> list[Change]:
    """The task wants something on `before` and nothing on `after`, which is what its changes lead to.

    Facts as in `facts_of`. Returns the changes planned on `before`, for a closer look. Raises AssertionError.
    """
    wanted = changes(task, before, ctx)
    assert wanted, f"{task.name} plans nothing on the facts before"
    left = changes(task, after, ctx)
    assert not left, f"{task.name} still plans on the facts after: {[change.summary for change in left]}"
    return wanted
