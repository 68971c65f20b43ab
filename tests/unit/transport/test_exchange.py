"""The script's way to a root shell and back, with this machine's shells at the other end."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioner.transport import exchange
from provisioner.transport.exchange import Cut, NotRun, WrongPassword, converse
from provisioner.transport.executor import Completed
from provisioner.transport.local import ProcessPipe

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
Run = Callable[..., Completed]


def start(*command: str) -> ProcessPipe:
    return ProcessPipe(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))


@pytest.fixture(params=SHELLS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    pipes: list[ProcessPipe] = []
    shell = (request.param, "sh") if request.param == "busybox" else (request.param,)

    def converse_with(script: str, password: str | None = None, timeout: float = 20.0) -> Completed:
        pipes.append(start(*shell, "-c", exchange.RECEIVER, "provision", "4711"))
        return converse(pipes[-1], script, password=password, timeout=timeout)

    yield converse_with
    for pipe in pipes:
        pipe.close()


def test_streams_status_and_anchor(run: Run) -> None:
    done = run("echo out $PROVISION_ANCHOR $#; echo err >&2; cat; exit 7")
    assert (done.rc, done.stdout, done.stderr) == (7, b"out 4711 0\n", b"err\n")


@pytest.mark.parametrize("script", ["", "# a comment", "true \\", "cat <<'END'\nno end"])
def test_scripts_that_end_oddly(run: Run, script: str) -> None:
    done = run(script)
    assert done.rc == 0
    assert b"provision:" not in done.stdout


def test_output_without_a_line_end(run: Run) -> None:
    done = run("printf no-end; printf none >&2")
    assert (done.stdout, done.stderr) == (b"no-end", b"none")


def test_a_syntax_error_is_a_status_and_a_message(run: Run) -> None:
    done = run("echo begins; if")
    assert done.rc != 0
    assert done.stderr


def test_a_shell_option_of_the_script_does_not_swallow_the_result(run: Run) -> None:
    assert run("set -eu; echo one; false; echo two").stdout == b"one\n"


def test_a_password_that_nobody_asked_for_is_not_run_and_not_shown(run: Run) -> None:
    done = run("echo done", password="touch /tmp/$(id -u)")
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_a_script_cannot_forge_its_result(run: Run) -> None:
    done = run("echo 'provision:begin:00000000000000000000000000000000:0'; exit 1")
    assert done.rc == 1
    assert done.stdout.startswith(b"provision:begin:")


def test_time_runs_out(run: Run) -> None:
    with pytest.raises(TimeoutError):
        run("sleep 3", timeout=0.2)


def test_a_nul_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="NUL"):
        run("echo \0")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_that_arrives_in_part_is_not_run(shell: str, tmp_path: Path) -> None:
    """The connection was cut while it travelled."""
    words = (shell, "sh") if shell == "busybox" else (shell,)
    proof = tmp_path / "ran"
    done = subprocess.run(
        [*words, "-c", exchange.RECEIVER, "provision", "1"],
        input=f"provision:begin:0123\ntouch {proof}\necho second",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (74, "provision:ready\n")
    assert not proof.exists()


def test_a_shell_that_ends_before_the_script() -> None:
    pipe = start("sh", "-c", "echo welcome; echo sudo: no >&2; exit 1")
    with pytest.raises(NotRun) as caught:
        converse(pipe, "echo never", password=None, timeout=10)
    pipe.close()
    assert (caught.value.status, caught.value.ready) == (1, False)
    assert (caught.value.stdout, caught.value.stderr) == ("welcome\n", "sudo: no\n")


def test_a_shell_that_is_killed_under_the_script() -> None:
    pipe = start("sh", "-c", exchange.RECEIVER, "provision", "1")
    started = time.monotonic()
    with pytest.raises(Cut):
        converse(pipe, "exec >&- 2>&-; kill -9 $$", password=None, timeout=10)
    pipe.close()
    assert time.monotonic() - started < 5


def test_a_password_asked_for_twice_is_wrong() -> None:
    prompt = exchange.PROMPT.decode()
    asks = f"printf {prompt} >&2; read -r a; echo Sorry, try again. >&2; printf {prompt} >&2; read -r b"
    pipe = start("sh", "-c", asks)
    with pytest.raises(WrongPassword):
        converse(pipe, "echo never", password="secret", timeout=10)
    pipe.close()


@pytest.mark.parametrize("shell", [each for each in ("sh", "bash", "zsh", "tcsh", "fish") if shutil.which(each)])
def test_any_login_shell_takes_the_command_line(shell: str) -> None:
    pipe = start(shell, "-c", exchange.login_command("none", password=False))
    if os.geteuid() == 0:
        assert converse(pipe, "id -u", password=None, timeout=20).stdout == b"0\n"
    else:
        with pytest.raises(NotRun) as caught:
            converse(pipe, "id -u", password=None, timeout=20)
        assert exchange.NOT_ROOT in caught.value.stderr
    pipe.close()


@pytest.mark.parametrize("become", ["sudo", "none"])
@pytest.mark.parametrize("password", [True, False])
def test_the_command_line_is_one_plain_line(become: str, password: bool) -> None:
    """csh and fish take it too: no line end, no history mark, no backslash."""
    line = exchange.login_command(become, password=password)
    assert line.startswith("exec sh -c '")
    assert not set("\n!\\") & set(line)
