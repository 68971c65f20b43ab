"""Saved plans, commands by hand, drift: what is refused, what is asked, what is written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import Site, book

BOOK = book(
    'task = "file"\npath = "/root/one"\ncontent = "{{ word }}\\n"',
    'task = "command"\nrun = "echo 2 >/root/two"\ncreates = "/root/two"\ndisruption = "none"\ntimeout = 20',
)


@pytest.fixture(scope="module")
def spare(lab: Lab) -> LabHost:
    lab.reset("gpu-z")
    return lab.host("gpu-z")


@pytest.fixture
def planned(spare: LabHost, site: Site) -> Site:
    """A site with two changes open and a saved plan of them."""
    spare.exec("rm -f /root/one /root/two", check=True)
    site.write(spare, text='[vars]\nword = "first"', playbook=BOOK)
    assert site.run("plan", "--out", str(site.folder / "saved")).returncode == 0
    return site


def from_saved(site: Site) -> dict[str, Any]:
    """`apply --plan` of the saved plan."""
    return site.json("apply", "--plan", str(site.folder / "saved"), "--yes")


def refused(site: Site, spare: LabHost) -> str:
    """Why the saved plan isn't applied; nothing was done."""
    before = spare.exec("ls -l /root").stdout
    answer = from_saved(site)
    assert (answer["exit_code"], answer["error"]["kind"]) == (1, "PlanMoved")
    assert "plan again" in answer["error"]["remedy"]
    assert spare.exec("ls -l /root").stdout == before
    return f"{answer['error']['what']}: {answer['error']['why']}"


def test_a_saved_plan_is_done_and_then_fits_no_more(planned: Site, spare: LabHost) -> None:
    host = from_saved(planned)["hosts"]["gpu-z"]
    assert (host["status"], host["changed"], host["execs"], host["connections"]) == ("changed", 2, 3, 1)
    assert spare.get("/root/one") == b"first\n"
    assert "gpu-z has moved" in refused(planned, spare)


def test_it_is_refused_after_the_host_moved(planned: Site, spare: LabHost) -> None:
    spare.put("/root/one", "by hand\n")
    assert "file:/root/one would change something else than what was there" in refused(planned, spare)
    spare.exec("rm /root/one; echo >/root/two", check=True)
    assert "command:echo 2 >/root/two is no longer needed" in refused(planned, spare)


def test_it_is_refused_after_the_inventory_moved(planned: Site, spare: LabHost) -> None:
    planned.write(spare, text='[vars]\nword = "second"', playbook=BOOK)
    assert "the inventory has changed" in refused(planned, spare)


def test_it_is_refused_after_the_playbook_moved(planned: Site, spare: LabHost) -> None:
    (planned.folder / "book.toml").write_text(BOOK.replace("echo 2", "echo 3"))
    assert "the playbook has changed" in refused(planned, spare)


def test_it_is_refused_for_another_machine_at_the_same_address(planned: Site, spare: LabHost) -> None:
    mine = spare.get("/etc/machine-id").decode()
    spare.exec("echo 0123456789abcdef0123456789abcdef >/root/id && mount --bind /root/id /etc/machine-id", check=True)
    told = refused(planned, spare)
    spare.exec("umount /etc/machine-id && rm /root/id", check=True)
    assert "another machine" in told
    assert spare.get("/etc/machine-id").decode() == mine


def test_what_is_no_plan_is_not_applied(planned: Site) -> None:
    (planned.folder / "saved").write_text("{}")
    answer = from_saved(planned)
    assert answer["exit_code"] == 1
    assert "can't be read" in answer["error"]["what"]
    assert answer["error"]["remedy"]


def test_nothing_is_changed_without_an_answer(planned: Site, spare: LabHost) -> None:
    answer = planned.json("apply")
    assert answer["exit_code"] == 1
    assert "no terminal" in answer["error"]["what"]
    assert "--yes" in answer["error"]["remedy"]
    assert spare.exec("ls /root/one /root/two").returncode == 2
    assert not list(planned.folder.glob("state/*/*/journal.jsonl")), "there was no run"


def test_exec_asks_and_is_journaled(planned: Site, spare: LabHost) -> None:
    asked = planned.run("exec", "--", "touch", "/root/by-exec")
    assert asked.returncode == 1
    assert "--yes" in asked.stderr
    assert spare.exec("test -e /root/by-exec").returncode == 1
    done = planned.run("exec", "--yes", "--", "touch /root/by-exec; echo out; echo err >&2")
    assert done.returncode == 0
    assert "  out" in done.stdout.splitlines()
    (journal,) = planned.folder.glob("state/*/*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert events[0]["data"]["kind"] == "exec"
    assert "touch /root/by-exec" in events[0]["text"]
    assert journal.stat().st_mode & 0o777 == 0o600
    report = json.loads(journal.with_name("report.json").read_text())
    assert (report["kind"], report["exit_code"], report["hosts"]["gpu-z"]["status"]) == ("exec", 0, "changed")
    failing = planned.run("exec", "--yes", "--", "echo no luck >&2; exit 5")
    assert failing.returncode == 1
    assert "no luck" in failing.stdout


def test_drift_and_facts_tell_what_moved(planned: Site, spare: LabHost) -> None:
    kept = str(planned.folder / "kept")
    assert planned.run("drift").returncode == 2, "two changes are open"
    assert from_saved(planned)["exit_code"] == 0
    assert planned.run("facts", "--save", kept).returncode == 0
    settled = planned.run("drift", "--since", kept)
    assert (settled.returncode, settled.stdout) == (0, "Nothing differs on 1 host.\n")
    spare.exec("hostname other", check=True)
    moved = planned.json("drift", "--since", kept)
    spare.exec("hostname gpu-z", check=True)
    assert moved["exit_code"] == 2
    assert moved["since"] == {"gpu-z": {"system.hostname": {"then": "gpu-z", "now": "other"}}}
    spare.put("/root/one", "by hand\n")
    desired = planned.json("drift")
    assert desired["exit_code"] == 2
    assert [change["subject"] for change in desired["hosts"]["gpu-z"]["changes"]] == ["/root/one"]
    assert planned.run("drift", "--since", str(planned.folder / "never")).returncode == 64
