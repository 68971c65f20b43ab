"""Connections that end, controllers that die, runs that meet, people who press Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provisioner import api
from tests.lab import Lab, LabHost
from tests.lab.site import Site, book


@pytest.fixture(scope="module")
def spare(lab: Lab) -> LabHost:
    """One host for the whole file; each test works in a folder of its own on it."""
    lab.reset("gpu-x")
    return lab.host("gpu-x")


class Slow:
    """A site whose first stage ends when the test says `go`, and whose second writes a file."""

    def __init__(self, site: Site, host: LabHost, folder: str) -> None:
        self.site, self.host, self.folder = site, host, folder
        command = (
            f"cd {folder}; touch begun; for i in $(seq 300); do [ ! -e go ] || break; sleep 0.2; done; touch ended"
        )
        self.site.write(
            self.host,
            playbook=book(
                f'task = "command"\nsummary = "slow"\nrun = "{command}"\ndisruption = "none"\n'
                f'creates = "{folder}/ended"',
                stage="first",
            )
            + book(f'task = "file"\npath = "{folder}/second"\ncontent = "x"', stage="second"),
        )

    def has(self, name: str) -> bool:
        """Is that file there on the host?"""
        return self.host.exec(f"test -e {self.folder}/{name}").returncode == 0

    def start(self) -> subprocess.Popen[str]:
        """An apply whose first stage runs on the host now."""
        self.host.exec(f"rm -f {self.folder}/*", check=True)
        run = self.site.start("apply", "--yes", "--json")
        until(lambda: self.has("begun") or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        return run

    def go(self) -> None:
        """Let the first stage end."""
        self.host.exec(f"touch {self.folder}/go", check=True)

    def again_while_it_runs(self, *more: str) -> dict[str, Any]:
        """The host's part of a second apply, during which the first one's script ends."""
        executions = self.host.executions()
        second = self.site.start("apply", "--yes", "--json", *more)
        until(lambda: self.host.executions() > executions)
        time.sleep(1.5)
        assert second.poll() is None
        assert not self.has("ended")
        self.go()
        answer = ended(second)
        assert answer["exit_code"] == second.returncode
        host: dict[str, Any] = answer["hosts"]["gpu-x"]
        return host


def ended(run: subprocess.Popen[str]) -> dict[str, Any]:
    """The JSON document of a run that was started."""
    document: dict[str, Any] = json.loads(run.communicate(timeout=60)[0])
    return document


@pytest.fixture
def slow(site: Site, spare: LabHost, request: pytest.FixtureRequest) -> Slow:
    folder = f"/root/{request.node.name}"
    spare.exec(f"mkdir -p {folder}", check=True)
    return Slow(site, spare, folder)


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.2)


def journals(site: Site) -> list[Path]:
    """The journals of the site's runs; their folders' names sort by time."""
    return sorted(site.folder.glob("state/*/*/journal.jsonl"))


def clean(host: LabHost) -> bool:
    """Nothing of a run is left in /run/provision: no lock, no folder of a stage."""
    return not host.exec("ls -d /run/provision/lock /run/provision/stage.* 2>/dev/null").stdout.split()


def test_a_connection_cut_in_the_middle_of_a_stage(slow: Slow) -> None:
    run = slow.start()
    slow.host.exec("pkill -9 -f '^sshd: ops'")
    answer = ended(run)
    host = answer["hosts"]["gpu-x"]
    assert (run.returncode, answer["exit_code"], host["status"]) == (1, 1, "failed")
    what, why, remedy = host["message"].splitlines()
    assert "connection was lost in the middle of a script" in what
    assert why.strip() == "the host or the network ended it"
    assert "plan again to see" in remedy
    again = slow.again_while_it_runs()
    assert slow.has("ended"), "the script went on to its end without its connection"
    assert again["status"] == "changed"
    assert [change["id"] for change in again["changes"]] == [f"second/file:{slow.folder}/second"]
    assert clean(slow.host)
    assert slow.site.json("plan")["hosts"]["gpu-x"]["status"] == "ok"


def test_a_controller_that_was_killed(slow: Slow) -> None:
    run = slow.start()
    run.kill()
    run.communicate()
    (path,) = journals(slow.site)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events[0]["kind"] == "run-started"
    assert (events[-1]["kind"], events[-1]["change"]) == ("change-started", "first/command:slow")
    again = slow.again_while_it_runs("--limit", "failed@last")
    assert slow.has("ended"), "it waited for the orphan"
    assert again["status"] == "changed", again["message"]
    assert [change["subject"] for change in again["changes"]] == [f"{slow.folder}/second"]
    assert clean(slow.host)
    assert slow.site.json("plan")["hosts"]["gpu-x"]["status"] == "ok"


def test_two_runs_at_once(slow: Slow) -> None:
    first = slow.start()
    second = slow.site.json("apply", "--yes")
    host = second["hosts"]["gpu-x"]
    assert (second["exit_code"], host["status"], host["changed"]) == (1, "failed", 0)
    what, why, remedy = host["message"].splitlines()
    assert "being changed by another run" in what
    assert f"(run {min(path.parent.name for path in journals(slow.site))})" in why, "which"
    assert "@" in why.split()[0], "who"
    assert "since 20" in why
    assert "run again" in remedy
    slow.go()
    assert ended(first)["hosts"]["gpu-x"]["changed"] == 2, "the first run isn't hurt"
    assert clean(slow.host)
    assert slow.site.json("apply", "--yes")["hosts"]["gpu-x"]["status"] == "ok"


def test_another_run_was_faster(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVISION_STATE_DIR", str(slow.site.folder / "state"))
    slow.go()
    with api.open(slow.site.inventory) as late:
        plan = late.plan()
        with api.open(slow.site.inventory) as early:
            assert early.apply(yes=True).exit_code == 0
        slow.host.exec(f"rm {slow.folder}/*", check=True)
        result = late.apply(plan).hosts["gpu-x"]
    assert result.status is api.Status.FAILED
    assert "another run changed this host after it was read" in result.message
    assert "plan again" in result.message
    assert not slow.has("begun"), "nothing was done on the ground of an old reading"


def test_ctrl_c_lets_what_runs_end_and_starts_nothing_new(slow: Slow) -> None:
    run = slow.site.start("apply", "--yes")
    until(lambda: slow.has("begun"))
    run.send_signal(signal.SIGINT)
    time.sleep(1)
    assert run.poll() is None
    slow.go()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert slow.has("ended")
    assert not slow.has("second"), "no new stage"
    assert out.splitlines()[-1] == f"Interrupted. To go on: provision apply {slow.site.inventory}"
    assert "nothing new is started" in err
    (path,) = journals(slow.site)
    assert json.loads(path.with_name("report.json").read_text())["exit_code"] == 130
    assert slow.site.json("apply", "--yes")["hosts"]["gpu-x"]["changed"] == 1
    assert clean(slow.host)


def test_a_second_ctrl_c_ends_at_once(slow: Slow) -> None:
    run = slow.start()
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert time.monotonic() - began < 5
    assert not slow.has("ended")
    slow.go()
    until(lambda: slow.has("ended"))


def test_ctrl_c_while_hosts_are_read_changes_nothing(slow: Slow) -> None:
    slow.host.put(f"{slow.folder}/guard", "sleep 4; false\n")
    guard = f'task = "command"\nrun = "touch {slow.folder}/begun"\nunless = "sh {slow.folder}/guard"'
    slow.site.write(slow.host, playbook=book(guard))
    run = slow.site.start("apply", "--yes", "--json")
    until(lambda: slow.host.exec(f"pgrep -f {slow.folder}/guard").returncode == 0)
    run.send_signal(signal.SIGINT)
    answer = ended(run)
    assert (run.returncode, answer["exit_code"], answer["error"]["kind"]) == (130, 130, "Interrupted")
    assert "nothing was changed" in answer["error"]["what"]
    assert str(slow.site.inventory) in answer["error"]["remedy"]
    assert not slow.has("begun")
