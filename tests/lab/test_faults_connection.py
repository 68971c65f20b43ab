"""Hosts that can't be logged in to: each says why and what to do, and the good host beside them is done."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab, LabHost
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS
from tests.lab.site import Site, book

MOTD = book('task = "file"\npath = "/root/good"\ncontent = "done\\n"')
SUDO = 'sudo_password = { secret = "sudo", from = "env:SUDO_PASSWORD" }'


@pytest.fixture(scope="module")
def good(lab: Lab) -> LabHost:
    """One host for the whole file: nothing here does more to it than a file and a user."""
    lab.reset("gpu-x")
    host = lab.host("gpu-x")
    host.exec(
        "useradd -m -s /bin/bash plain && mkdir -m 700 ~plain/.ssh"
        " && cp /root/.ssh/authorized_keys ~plain/.ssh/ && chown -R plain ~plain/.ssh",
        check=True,
    )
    return host


@pytest.fixture(scope="module")
def outcome(good: LabHost, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run over the good host and, by other ways to the same host, every fault; plus what it printed."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "stranger"], check=True)
    other = (folder / "stranger.pub").read_text().split()
    (folder / "changed").write_text(f"[127.0.0.1]:{good.port} {other[0]} {other[1]}\n")
    (folder / "empty").write_text("")
    (folder / "closed").write_text(KNOWN_HOSTS.read_text().replace(f":{good.port} ", ":22999 "))
    ways = {
        "closed": 'port = 22999\nknown_hosts = "closed"',
        "refused": 'key = "stranger"',
        "changed": 'known_hosts = "changed"',
        "unknown": 'known_hosts = "empty"',
        "wrong-sudo": f'user = "pw"\n{SUDO}',
        "needs-sudo": 'user = "pw"',
        "no-sudo": 'user = "plain"',
    }
    text = "".join(
        f'[hosts.{name}]\naddress = "127.0.0.1"\n{keys}\n' + ("" if "port" in keys else f"port = {good.port}\n")
        for name, keys in ways.items()
    )
    site = Site(folder, {"SUDO_PASSWORD": "certainly wrong"})
    site.write(good, text=text, playbook=MOTD)
    done = site.run("apply", "--yes", "--limit", "!wrong-sudo")
    document = site.json("apply", "--yes")
    return {"text": done, "document": document, "hosts": document["hosts"]}


def test_others_go_on_beside_hosts_that_cannot_be_reached(outcome: dict[str, Any], good: LabHost) -> None:
    text = outcome["text"]
    assert text.returncode == 1
    assert good.get("/root/good") == b"done\n"
    assert "6 unreachable of 7 hosts" in text.stdout
    assert "--limit failed@last" in text.stdout.splitlines()[-1], "the command for those alone comes last"
    assert outcome["document"]["exit_code"] == 1
    assert outcome["hosts"]["gpu-x"]["status"] == "ok", "the first run had done it"


@pytest.mark.parametrize(
    ("name", "what", "why", "remedy"),
    [
        ("closed", "can't connect to 127.0.0.1", "connection refused", "that sshd runs on the host"),
        ("refused", "refused", "the server refused every key offered", "authorized_keys"),
        ("changed", "changed", "installed anew, or somebody stands in between", "ssh-keygen -lf"),
        ("unknown", "unknown", "no line for it in", "ssh-keygen -lf"),
        ("wrong-sudo", "pw can't become root", "password", "sudo_password"),
        ("needs-sudo", "pw can't become root", "password", "sudo_password"),
        ("no-sudo", "plain can't become root", "password", "sudo"),
    ],
)
def test_each_says_what_why_and_what_to_do(
    outcome: dict[str, Any], name: str, what: str, why: str, remedy: str
) -> None:
    host = outcome["hosts"][name]
    assert (host["status"], host["changed"], host["execs"] <= 1) == ("unreachable", 0, True)
    first, second, third = host["message"].split("\n", 2)
    assert what in first
    assert why in second
    assert remedy in third


def test_a_wrong_sudo_password_is_not_shown(outcome: dict[str, Any]) -> None:
    assert "certainly wrong" not in str(outcome)


def test_a_host_key_is_never_taken_by_itself(outcome: dict[str, Any], site: Site, good: LabHost) -> None:
    assert outcome["hosts"]["unknown"]["connections"] == 0
    (site.folder / "empty").write_text("")
    site.write(good, text='host_keys = "accept-new"', playbook=MOTD)
    site.inventory.write_text(site.inventory.read_text().replace(str(KNOWN_HOSTS), "empty"))
    assert site.json("plan")["hosts"]["gpu-x"]["status"] == "ok"
    key = (site.folder / "empty").read_text().split()
    assert key[:2] == next(line.split()[:2] for line in KNOWN_HOSTS.read_text().splitlines() if f":{good.port}" in line)


def test_the_right_sudo_password_works(good: LabHost, site: Site) -> None:
    site.environment["SUDO_PASSWORD"] = "open sesame"
    site.write(good, text=SUDO, playbook=MOTD.replace("/root/good", "/root/better"), user="pw")
    host = site.json("apply", "--yes")["hosts"]["gpu-x"]
    assert (host["status"], host["changed"], host["connections"]) == ("changed", 1, 1), host["message"]
    assert good.get("/root/better") == b"done\n"


def test_no_password_to_be_had_is_said_before_connecting(good: LabHost, site: Site) -> None:
    good.clear_sshd_log()
    site.write(good, text=SUDO, playbook=MOTD, user="pw")
    error = site.json("plan")["error"]
    assert "SUDO_PASSWORD" in error["what"] + error["why"]
    assert good.connections() == 0


def test_a_key_that_is_not_there_is_named(good: LabHost, site: Site) -> None:
    site.write(good, playbook=MOTD)
    site.inventory.write_text(site.inventory.read_text().replace(str(CLIENT_KEY), str(Path("gone/id"))))
    host = site.json("plan")["hosts"]["gpu-x"]
    assert "gone/id" in host["error"]
    assert host["error_kind"] == "AuthenticationError"
