"""What holds for every command: laziness, exit codes, errors."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from provisioner.cli.main import COMMANDS, cli
from provisioner.errors import InventoryError
from tests.unit.cli.conftest import Said, Site

Provision = Callable[..., Said]

HEAVY = ("fabric", "paramiko", "rich", "jinja2")


def loaded(tmp_path: Path, *arguments: str) -> list[str]:
    """The heavy modules that a command line imports in a process of its own."""
    (tmp_path / "prod.toml").write_text('[hosts.gpu01]\naddress = "10.0.0.1"\n')
    code = (
        "import sys; from provisioner.cli.main import run; code = run(sys.argv[1:]); "
        f"print('loaded:', code, *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    number, *names = done.stdout.rpartition("loaded:")[2].split()
    assert number == "0", done.stdout + done.stderr
    return names


def test_help_and_inventory_list_load_nothing_heavy(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--help") == []
    assert loaded(tmp_path, "plan", "--help") == []
    assert loaded(tmp_path, "inventory", "list", "prod.toml") == []


def test_help_is_quick() -> None:
    """CPU time, which another process on the machine doesn't lengthen; half of it is Python's own start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "from provisioner.cli.main import run; run(['--help'])"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_the_summary_that_help_shows(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.epilog
    assert f"provision {name}" in command.epilog
    assert command.help
    if name != "containerd-config":
        assert command.help.splitlines()[0].startswith(COMMANDS[name][1].rstrip("."))


@pytest.mark.parametrize(
    "arguments",
    [
        ["plam"],
        ["plan", "--no-such-option"],
        ["plan", "a.toml", "b.toml"],
        ["apply", "--forks", "0"],
        ["plan", "--diff", "some"],
        ["tasks", "show"],
    ],
)
def test_a_wrong_command_line_is_64(provision: Provision, site: Site, arguments: list[str]) -> None:
    said = provision(*arguments)
    assert said.code == 64
    assert said.out == ""
    assert re.match(r"error: .+\n  `provision.* --help` shows what it takes\n$", said.err)
    doc = json.loads(provision(*arguments, "--json").out)
    assert doc["exit_code"] == 64
    assert doc["error"]["what"]


def test_json_after_two_dashes_belongs_to_the_hosts_command(provision: Provision, site: Site) -> None:
    said = provision("exec", "prod.toml", "--no-such", "--", "tool", "--json")
    assert said.out == ""


def test_no_command_shows_help(provision: Provision) -> None:
    said = provision()
    assert said.code == 64
    assert "Commands:" in said.err


def test_an_error_says_what_why_and_what_to_do(
    provision: Provision, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong() -> None:
        raise InventoryError("unknown key \x1b[2J'hots'", why="did you mean 'hosts'?", file="prod.toml", line=3)

    site.during = wrong
    said = provision("plan")
    assert said.code == 1
    assert said.err == "error: prod.toml:3: unknown key \\x1b[2J'hots'\n  did you mean 'hosts'?\n"
    doc = json.loads(provision("plan", "--json").out)
    assert (doc["command"], doc["error"]["kind"], doc["error"]["line"]) == ("plan", "InventoryError", 3)
    assert site.called()[-1] == "close"


def test_a_defect_of_ours_leaves_a_traceback_in_a_file(provision: Provision, site: Site) -> None:
    def broken() -> None:
        raise RuntimeError("a defect")

    site.during = broken
    said = provision("plan")
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "RuntimeError: a defect" in said.err
    [name] = re.findall(r"the traceback is in (\S+);", said.err)
    assert "Traceback" in Path(name).read_text()
    assert Path(name).stat().st_mode & 0o077 == 0
    Path(name).unlink()
    assert "Traceback" in provision("plan", "-vv").err


def test_ctrl_c_is_130(provision: Provision, site: Site) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    site.during = interrupted
    assert provision("plan").code == 130


def test_a_reader_that_goes_away_is_no_crash() -> None:
    """`provision … | head -1`: the pipe is closed before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from provisioner.cli.main import main; main()", "tasks", "list"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 1
