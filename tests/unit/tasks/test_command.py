"""command: runs only where a guard says that it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.errors import FactUnknown, PlaybookError
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.guards import GuardProbe
from provisioner.model.action import Run
from provisioner.model.change import Disruption, Kind
from provisioner.model.fact import Known, Unknown
from provisioner.tasks.command import Command
from provisioner.tasks.proof import assert_settles, changes
from provisioner.tasks.task import build
from tests.unit.facts.shell import ask

CREATED = FileProbe("/opt/x/done", content=False)
THERE = FileState("file", 0o644, "root", "root", 0)
UNLESS = GuardProbe("test -e /a")
ONLYIF = GuardProbe("test -e /b")


def test_creates() -> None:
    task = Command(run="make-x\n", creates="/opt/x/done")
    (change,) = assert_settles(task, before={CREATED: None}, after={CREATED: THERE})
    assert change.actions == (Run("make-x\n", why="make-x", timeout=300),)
    assert (change.kind, change.after) == (Kind.RUN, "make-x\n")
    assert (change.disruption, change.disrupts) == (Disruption.SERVICE, "runs `make-x`")


def test_unless() -> None:
    task = Command(run="make-x", unless="test -e /a", summary="x is made", disruption="none")
    (change,) = assert_settles(task, before={UNLESS: False}, after={UNLESS: True})
    assert (change.subject, change.summary) == ("x is made", "make-x")
    assert change.disruption is Disruption.NONE
    assert change.disrupts == ""


def test_onlyif_is_asked_first() -> None:
    task = Command(run="make-x", onlyif="test -e /b", unless="test -e /a")
    assert not changes(task, {ONLYIF: False, UNLESS: Unknown("nvidia-smi: not found")})
    with pytest.raises(FactUnknown):
        changes(task, {ONLYIF: True, UNLESS: Unknown("nvidia-smi: not found")})
    assert changes(task, {ONLYIF: True, UNLESS: False})


def test_disruption_and_timeout() -> None:
    (change,) = changes(
        Command(run="reset", creates="/opt/x/done", disruption="drain", disrupts="resets the cards", timeout=7),
        {CREATED: None},
    )
    assert (change.disruption, change.disrupts) == (Disruption.DRAIN, "resets the cards")
    assert change.actions == (Run("reset", why="reset", timeout=7),)


@pytest.mark.parametrize(
    ("test", "fact"),
    [
        ("true", Known(True)),
        ("false", Known(False)),
        ("exit 3", Known(False)),
        ("echo yes; exit 1", Known(False)),
        ("test 'a b' = \"a b\"", Known(True)),
    ],
)
def test_guards_on_a_host(tmp_path: Path, test: str, fact: Known[bool]) -> None:
    assert ask(GuardProbe(test), tmp_path) == fact


@pytest.mark.parametrize(("test", "reason"), [("no-such-command", "not found"), ("sleep 9", "did not end within 1 s")])
def test_a_guard_that_cannot_be_told_is_unknown(tmp_path: Path, test: str, reason: str) -> None:
    found = ask(GuardProbe(test, timeout=1), tmp_path)
    assert isinstance(found, Unknown)
    assert reason in found.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"run": "x"},
        {"run": " ", "creates": "/x"},
        {"run": "x", "creates": "x"},
        {"run": "x", "creates": "/x", "timeout": 0},
        {"run": "x", "creates": "/x", "disruption": "some"},
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlaybookError):
        build("command", fields)
