"""`plan` and `apply`: what is shown, what is asked, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.model import planjson
from provisioner.model.result import Status
from tests.unit.cli.conftest import Said, Site
from tests.unit.report import samples

Provision = Callable[..., Said]


def test_plan_shows_everything_and_what_to_type_next(site: Site, provision: Provision) -> None:
    site.plan = samples.plan(samples.host(1, samples.RUNTIME, samples.DRIVER))
    said = provision("plan", "prod.toml", "--limit", "gpu[01-02]")
    assert said.code == 0
    assert "! restarts containerd" in said.out
    assert "1 change on 1 host deferred: needs a drained node" in said.out
    assert said.out.endswith("To do it: provision apply prod.toml --limit 'gpu[01-02]'\n")
    assert site.called() == ["open", "plan", "close"]


@pytest.mark.parametrize(
    ("hosts", "detailed", "code"),
    [
        ([samples.host(1)], True, 0),
        ([samples.host(1, samples.RUNTIME)], False, 0),
        ([samples.host(1, samples.RUNTIME)], True, 2),
        ([samples.host(1, samples.DRIVER)], True, 2),
        ([samples.host(1), samples.host(2, error="away")], True, 1),
        ([samples.host(1, samples.RUNTIME, refusals=(samples.SECURE_BOOT,))], False, 1),
    ],
)
def test_exit_code_of_plan(site: Site, provision: Provision, hosts: list[object], detailed: bool, code: int) -> None:
    site.plan = samples.plan(*hosts)  # type: ignore[arg-type]
    assert provision("plan", *(["--detailed-exitcode"] if detailed else [])).code == code


def test_a_plan_is_saved_for_its_owner_only_and_applied_from_there(
    site: Site, provision: Provision, tmp_path: Path
) -> None:
    path = tmp_path / "today.plan"
    said = provision("plan", "prod.toml", "--out", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert planjson.loads(path.read_text(), "x") == site.plan
    assert f"provision apply prod.toml --plan {path}" in said.out
    site.calls.clear()
    provision("apply", "prod.toml", "--plan", str(path), "--yes")
    assert site.called() == ["open", "apply", "close"]
    assert site.calls[1][1] == site.plan


def test_a_saved_plan_that_isnt_there(site: Site, provision: Provision, tmp_path: Path) -> None:
    said = provision("apply", "--plan", str(tmp_path / "none"), "--yes")
    assert said.code == 64
    assert "No such file" in said.err
    assert "apply" not in site.called()


def test_json_is_one_document(site: Site, provision: Provision) -> None:
    said = provision("apply", "--yes", "--json")
    doc = json.loads(said.out)
    assert (doc["schema"], doc["command"], doc["exit_code"]) == (1, "apply", 0)
    assert doc["hosts"]["gpu01"]["changed"] == 1


def test_without_a_terminal_and_without_yes_nothing_happens(site: Site, provision: Provision) -> None:
    said = provision("apply", "prod.toml", "--disruptive")
    assert said.code == 1
    assert "error: nothing was changed: there is no terminal to ask on, and --yes wasn't given" in said.err
    assert "provision apply prod.toml --disruptive --yes" in said.err
    assert "apply" not in site.called()
    doc = json.loads(provision("apply", "prod.toml", "--json").out)
    assert doc["exit_code"] == 1
    assert doc["error"]["what"].startswith("nothing was changed")


@pytest.mark.parametrize(
    ("answer", "applied"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_the_question(
    site: Site, provision: Provision, answers: Callable[[str], None], answer: str, applied: bool
) -> None:
    answers(answer)
    said = provision("apply")
    assert "Apply 17 of 34 changes to 16 hosts? [y/N]" in said.err
    assert ("apply" in site.called()) is applied
    assert said.code == (0 if applied else 1)


def test_nothing_is_asked_when_nothing_can_be_done(site: Site, provision: Provision) -> None:
    site.plan = samples.plan(samples.host(1, samples.DRIVER))
    site.result = samples.result(replace(samples.changed(1), status=Status.OK, outcomes=()))
    said = provision("apply")
    assert said.code == 0
    assert site.called() == ["open", "plan", "apply", "close"]


def test_a_failed_run(site: Site, provision: Provision) -> None:
    site.result = samples.result(samples.broken(1, "boom\n"), exit_code=1)
    said = provision("apply", "prod.toml", "--yes")
    assert said.code == 1
    assert "  | boom" in said.out
    assert said.out.endswith("Again for those alone: provision apply prod.toml --limit failed@last\n")


def test_what_was_typed_reaches_the_session(site: Site, provision: Provision) -> None:
    provision(
        *("apply", "x.toml", "--limit", "a,b", "--set", "gpu.cards=4", "--set", "x=y", "--playbook", "p"),
        *("--forks", "3", "--allow-no-gpu", "--local", "--reboot", "--stage", "modules", "--yes"),
    )
    how = site.calls[0][1]
    assert how["path"] == Path("x.toml")
    assert (how["limit"], how["sets"], how["playbook"]) == ("a,b", ("gpu.cards=4", "x=y"), "p")
    assert (how["forks"], how["local"]) == (3, True)
    assert how["options"] == {"allow_no_gpu": True, "disruptive": False, "reboot": True, "local": True}
    assert how["ask"] is None
    assert site.calls[1] == ("plan", "modules")


def test_ctrl_c_stops_the_session_and_lets_it_end(site: Site, provision: Provision) -> None:
    site.plan = samples.plan(samples.host(1))
    site.result = samples.result(samples.changed(1), exit_code=130, interrupted=True)

    def interrupt() -> None:
        if site.called()[-1] == "apply":
            os.kill(os.getpid(), signal.SIGINT)
            deadline = time.monotonic() + 5
            while "stop" not in site.called() and time.monotonic() < deadline:
                time.sleep(0.01)

    site.during = interrupt
    said = provision("apply", "prod.toml", "--yes")
    assert said.code == 130
    assert "stop" in site.called()
    assert said.out.endswith("Interrupted. To go on: provision apply prod.toml\n")


def test_an_interrupted_plan_is_not_shown_and_not_applied(site: Site, provision: Provision) -> None:
    """Hosts that weren't read would look like hosts without changes."""

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    site.during = interrupt
    for command in (("plan", "prod.toml"), ("apply", "prod.toml", "--yes"), ("drift", "prod.toml")):
        said = provision(*command)
        assert (said.code, said.out) == (130, "")
        assert f"to go on: provision {command[0]} prod.toml" in said.err
    assert "apply" not in site.called()


def test_a_second_ctrl_c_ends_at_once() -> None:
    code = """
import time
from provisioner.cli.interrupt import stoppable
with stoppable(lambda: print("stopping", flush=True)):
    print("ready", flush=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.05)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.readline() == "stopping\n"
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 130


def test_events_go_to_a_file(site: Site, provision: Provision, tmp_path: Path) -> None:
    from provisioner.model.event import Event

    site.during = lambda: site.calls[0][1]["monitor"](Event("host-failed", 1.0, "gpu01", text="away"))
    said = provision("plan", "--events", str(tmp_path / "events"))
    assert "gpu01: away" in said.err
    assert json.loads((tmp_path / "events").read_text())["host"] == "gpu01"
    assert provision("plan", "--events", str(tmp_path / "no" / "such")).code == 64
