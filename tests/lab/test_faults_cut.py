"""Connections that end, controllers that die, runs that meet, people who press Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

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
    """A site whose first stage takes some seconds and whose second writes a file."""

    def __init__(self, site: Site, host: LabHost, folder: str) -> None:
        self.site, self.host, self.folder = site, host, folder

    def write(self, seconds: int = 5) -> None:
        """The inventory and the playbook."""
        command = f"touch {self.folder}/begun; sleep {seconds}; touch {self.folder}/ended"
        self.site.write(
            self.host,
            playbook=book(
                f'task = "command"\nsummary = "slow"\nrun = "{command}"\n'
                f'creates = "{self.folder}/ended"\ndisruption = "none"',
                stage="first",
            )
            + book(f'task = "file"\npath = "{self.folder}/second"\ncontent = "x"', stage="second"),
        )

    def has(self, name: str) -> bool:
        """Is that file there on the host?"""
        return self.host.exec(f"test -e {self.folder}/{name}").returncode == 0

    def begun(self) -> None:
        """Wait until the command of the first stage runs on the host."""
        until(lambda: self.has("begun"))


@pytest.fixture
def slow(site: Site, spare: LabHost, request: pytest.FixtureRequest) -> Slow:
    folder = f"/root/{request.node.name}"
    spare.exec(f"mkdir -p {folder}", check=True)
    slow = Slow(site, spare, folder)
    slow.write()
    return slow


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.2)


def journals(site: Site) -> list[Path]:
    """The journals of the site's runs; their folders' names sort by time."""
    return sorted(site.folder.glob("state/*/*/journal.jsonl"))


def unlocked(host: LabHost) -> bool:
    """Nothing of a run is left in /run/provision: no lock, no folder of a stage."""
    return not host.exec("ls -d /run/provision/lock /run/provision/stage.* 2>/dev/null").stdout.split()


def test_a_connection_cut_in_the_middle_of_a_stage(slow: Slow) -> None:
    run = slow.site.start("apply", "--yes", "--json")
    slow.begun()
    slow.host.exec("pkill -9 -f '^sshd: ops'")
    answer = json.loads(run.communicate(timeout=60)[0])
    host = answer["hosts"]["gpu-x"]
    assert (run.returncode, answer["exit_code"], host["status"]) == (1, 1, "failed")
    assert "gave no result" in host["message"]
    assert "plan again to see" in host["message"], host["message"]
    again = slow.site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert slow.has("ended"), "the script went on to its end without its connection"
    assert again["status"] == "changed"
    assert [change["id"] for change in again["changes"]] == [f"second/file:{slow.folder}/second"]
    assert unlocked(slow.host)
    assert slow.site.json("apply", "--yes")["hosts"]["gpu-x"]["status"] == "ok"


def test_a_controller_that_was_killed(slow: Slow) -> None:
    run = slow.site.start("apply", "--yes")
    slow.begun()
    run.kill()
    run.communicate()
    assert not slow.has("ended")
    again = slow.site.json("apply", "--yes", "--limit", "failed@last")["hosts"]["gpu-x"]
    assert slow.has("ended"), "it waited for the orphan"
    assert again["status"] == "changed", again["message"]
    assert [change["subject"] for change in again["changes"]] == [f"{slow.folder}/second"]
    assert unlocked(slow.host)
    assert slow.site.json("plan")["hosts"]["gpu-x"]["status"] == "ok"


def test_the_journal_of_a_killed_run_says_how_far_it_came(slow: Slow) -> None:
    run = slow.site.start("apply", "--yes")
    slow.begun()
    run.kill()
    run.communicate()
    (path,) = journals(slow.site)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = [(event["kind"], event.get("change", "")) for event in events]
    assert kinds[0][0] == "run-started"
    assert kinds[-1] == ("change-started", "first/command:slow")
    until(lambda: slow.has("ended"))


def test_two_runs_at_once(slow: Slow) -> None:
    first = slow.site.start("apply", "--yes", "--json")
    slow.begun()
    second = slow.site.json("apply", "--yes")
    host = second["hosts"]["gpu-x"]
    assert (second["exit_code"], host["status"], host["changed"]) == (1, "failed", 0)
    what, why, remedy = host["message"].splitlines()
    assert "being changed by another run" in what
    assert f"(run {min(path.parent.name for path in journals(slow.site))})" in why, "which"
    assert "@" in why.split()[0], "who"
    assert "since 20" in why
    assert "run again" in remedy
    answer = json.loads(first.communicate(timeout=60)[0])
    assert answer["hosts"]["gpu-x"]["status"] == "changed", "the first run isn't hurt"
    assert slow.site.json("apply", "--yes")["hosts"]["gpu-x"]["status"] == "ok"


def test_another_run_was_faster(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVISION_STATE_DIR", str(slow.site.folder / "state"))
    slow.write(seconds=0)
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
    slow.begun()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert slow.has("ended")
    assert not slow.has("second"), "no new stage"
    assert out.splitlines()[-1] == f"Interrupted. To go on: provision apply {slow.site.inventory} --yes"
    assert "nothing new is started" in err
    assert unlocked(slow.host)
    (report,) = slow.site.folder.glob("state/*/*/report.json")
    assert json.loads(report.read_text())["exit_code"] == 130
    assert slow.site.json("apply", "--yes")["hosts"]["gpu-x"]["changed"] == 1


def test_a_second_ctrl_c_ends_at_once(slow: Slow) -> None:
    slow.write(seconds=7)
    run = slow.site.start("apply", "--yes")
    slow.begun()
    run.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert time.monotonic() - began < 3
    assert not slow.has("ended")
    until(lambda: slow.has("ended"))


def test_ctrl_c_while_hosts_are_read_changes_nothing(slow: Slow) -> None:
    slow.host.exec(f"printf 'sleep 4; false' >{slow.folder}/guard", check=True)
    guard = f'task = "command"\nrun = "touch {slow.folder}/begun"\nunless = "sh {slow.folder}/guard"'
    slow.site.write(slow.host, playbook=book(guard))
    slow.host.clear_sshd_log()
    run = slow.site.start("apply", "--yes", "--json")
    until(lambda: slow.host.exec(f"pgrep -f {slow.folder}/guard").returncode == 0)
    run.send_signal(signal.SIGINT)
    answer = json.loads(run.communicate(timeout=60)[0])
    assert (run.returncode, answer["exit_code"], answer["error"]["kind"]) == (130, 130, "Interrupted")
    assert "nothing was changed" in answer["error"]["what"]
    assert str(Path(slow.site.inventory)) in answer["error"]["remedy"]
    assert not slow.has("begun")
