"""The lock on a host, by the very sh that hosts run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.engine.compile import shell

NOBODY = "4194303"
"""A process id that is hardly ever in use."""


def script(run: str, generation: int, then: str = "echo taken") -> str:
    return f"{shell('hostlock.sh')}_lock=lock; _generation=generation\ntake_lock {run} me@here {generation}\n{then}\n"


def take(folder: Path, run: str, generation: int, anchor: str = NOBODY) -> tuple[int, str]:
    """Status and words of a script that takes the lock and ends."""
    done = subprocess.run(
        ["dash", "-c", script(run, generation)],
        cwd=folder,
        env={**os.environ, "PROVISION_ANCHOR": anchor},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A stage's script that works on although its controller, and the connection that served it, have gone."""
    process = subprocess.Popen(
        ["dash", "-c", script("run-1", 0, "echo taken; read -r _ || :")],
        cwd=tmp_path,
        env={**os.environ, "PROVISION_ANCHOR": NOBODY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    yield process
    process.communicate()


@pytest.mark.usefixtures("orphan")
def test_a_script_without_a_controller_keeps_the_lock_while_it_works(tmp_path: Path) -> None:
    status, said = take(tmp_path, "run-2", 1)
    assert status == 73
    assert said.startswith("me@here has held this host since 20")
    assert said.endswith("(run run-1)\n")


def test_a_dead_holder_s_lock_is_taken_over(tmp_path: Path, orphan: subprocess.Popen[str]) -> None:
    orphan.communicate()
    assert take(tmp_path, "run-2", 1) == (0, "")


def test_the_lock_lives_as_long_as_the_connection(tmp_path: Path) -> None:
    connection = subprocess.Popen(["sleep", "60"])
    assert take(tmp_path, "run-1", 0, str(connection.pid)) == (0, "")
    assert take(tmp_path, "run-2", 1)[0] == 73
    assert take(tmp_path, "run-1", 1, str(connection.pid)) == (0, ""), "its own next stage"
    connection.kill()
    connection.wait()
    assert take(tmp_path, "run-2", 2) == (0, "")


def test_a_host_that_was_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    assert take(tmp_path, "run-1", 0) == (0, "")
    assert take(tmp_path, "run-2", 0)[0] == 74


def test_a_counter_that_a_full_disk_left_empty_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "generation").touch()
    assert take(tmp_path, "run-1", 0) == (0, "")
    assert (tmp_path / "generation").read_text() == "1\n"


@pytest.mark.parametrize("name", ["lock", "generation"])
def test_without_a_lock_nothing_is_begun(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.new").mkdir()
    status, said = take(tmp_path, "run-1", 0)
    assert status == 71
    assert "nothing was changed" in said
