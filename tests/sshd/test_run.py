"""Scripts through a real sshd: what goes in, what comes out, what it costs, what can be seen of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from provisioner.errors import Disconnected
from provisioner.model.inventory import Secret
from provisioner.transport.executor import Executor
from tests.sshd.conftest import Open
from tests.sshd.server import PASSWORD, Server

USERS: dict[str, dict[str, Any]] = {
    "root": {"user": "root", "become": "none"},
    "root who would use sudo": {"user": "root"},
    "sudo": {"user": "plain"},
    "sudo with password": {"user": "asked", "sudo_password": Secret("sudo", PASSWORD)},
    "sudo that needs no password": {"user": "plain", "sudo_password": Secret("sudo", PASSWORD)},
    "noisy login": {"user": "noisy"},
}


@pytest.fixture(params=list(USERS))
def executor(request: pytest.FixtureRequest, server: Server, open_executor: Open) -> Executor:
    return open_executor(server.connection(**USERS[str(request.param)]))


def test_a_script_runs_as_root_with_its_streams_and_status(executor: Executor) -> None:
    done = executor.run("id -u; cat; echo problem >&2; exit 3", timeout=20)
    assert (done.rc, done.stdout, done.stderr) == (3, b"0\n", b"problem\n")


def test_one_connection_and_one_execution_for_each_run(executor: Executor, server: Server) -> None:
    with server.watch() as traffic:
        for _ in range(3):
            assert executor.run("true", timeout=20).rc == 0
    assert (traffic.logins, traffic.execs) == (1, 3)
    assert (executor.connections, executor.execs) == (1, 3)


def test_the_anchor_lives_as_long_as_the_connection(executor: Executor, server: Server, open_executor: Open) -> None:
    anchors = {executor.run("echo $PROVISION_ANCHOR; kill -0 $PROVISION_ANCHOR", timeout=20) for _ in range(2)}
    assert {done.rc for done in anchors} == {0}
    (anchor,) = {int(done.stdout) for done in anchors}
    other = open_executor(server.connection())
    assert other.run(f"kill -0 {anchor}", timeout=20).rc == 0
    executor.close()
    assert wait_for(lambda: other.run(f"kill -0 {anchor}", timeout=20).rc != 0)


def test_a_script_is_not_seen_by_other_users_of_the_host(executor: Executor, server: Server) -> None:
    """The script holds a secret; the process list of the host must not, nor the log of sshd and sudo."""
    done = executor.run("secret=hunter2hunter2\n: secret-of-the-script\nps axww -o args; ps axeww -o args", timeout=20)
    assert b"provision" in done.stdout
    for secret in (b"hunter2hunter2", b"secret-of-the-script", PASSWORD.encode()):
        assert secret not in done.stdout
    assert "hunter2" not in server.log()


def test_large_scripts_and_outputs(executor: Executor) -> None:
    padding = "".join(f"# {'x' * 98}\n" for _ in range(10_000))
    done = executor.run(
        f"{padding}yes out | head -c 10000000 & yes err | head -c 5000000 >&2; wait; echo end", timeout=60
    )
    assert len(done.stdout) == 10_000_000 + len("end\n")
    assert len(done.stderr) == 5_000_000


def test_bytes_that_are_no_text_pass_both_ways(executor: Executor) -> None:
    name = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    assert executor.run(f"printf '%s' '{name}'; printf '\\377\\n' >&2", timeout=20).stdout == b"caf\xe9 \xff"


def test_a_script_that_kills_its_own_shell_has_a_status(executor: Executor) -> None:
    assert executor.run('echo before; exec sh -c "kill -9 \\$\\$"', timeout=20).rc == 128 + 9


def test_a_service_that_keeps_the_streams_open_holds_nothing_up(executor: Executor) -> None:
    started = time.monotonic()
    assert executor.run("sleep 30 & echo started", timeout=20).stdout == b"started\n"
    assert time.monotonic() - started < 10


def test_time_runs_out(server: Server, open_executor: Open) -> None:
    executor = open_executor(server.connection("plain"))
    with pytest.raises(Disconnected, match=r"within 0\.5 s"):
        executor.run("sleep 30", timeout=0.5)
    assert executor.run("echo again", timeout=20).stdout == b"again\n"
    assert executor.connections == 2


def test_close_from_another_thread_ends_a_run_soon(executor: Executor) -> None:
    executor.run("true", timeout=20)
    timer = threading.Timer(0.3, executor.close)
    timer.start()
    started = time.monotonic()
    with pytest.raises(Disconnected, match="gpu01") as caught:
        executor.run("sleep 30", timeout=40)
    assert "stopped" in caught.value.why
    assert time.monotonic() - started < 5


def test_a_script_goes_on_when_its_connection_is_cut(executor: Executor, server: Server, open_executor: Open) -> None:
    """kill -9 of the process that serves the connection: we hear of it, the host ends what it began."""
    other = open_executor(server.connection())
    proof = f"{server.folder}/went-on"
    other.run(f"rm -f {proof}", timeout=20)
    with ThreadPoolExecutor(1) as pool:
        script = f"trap '' PIPE HUP; echo $PROVISION_ANCHOR > {proof}.anchor; sleep 1; echo more; echo done > {proof}"
        running = pool.submit(executor.run, script, timeout=30)
        assert wait_for(lambda: other.run(f"test -s {proof}.anchor", timeout=20).rc == 0)
        other.run(f"kill -9 $(cat {proof}.anchor); rm {proof}.anchor", timeout=20)
        with pytest.raises(Disconnected, match="lost in the middle"):
            running.result()
    assert wait_for(lambda: other.run(f"cat {proof}", timeout=20).stdout == b"done\n")
    assert executor.run("echo back", timeout=20).stdout == b"back\n"


def test_a_script_that_prints_nothing_needs_no_care(executor: Executor, server: Server, open_executor: Open) -> None:
    """No terminal, so no hang-up signal: only writing to the lost streams could end it."""
    other = open_executor(server.connection())
    proof = f"{server.folder}/quiet"
    other.run(f"rm -f {proof}", timeout=20)
    with pytest.raises(Disconnected):
        executor.run(f"sleep 1.5; : > {proof}", timeout=0.5)
    assert wait_for(lambda: other.run(f"test -e {proof}", timeout=20).rc == 0)


def test_many_at_once(server: Server, open_executor: Open) -> None:
    count = 40
    executors = [open_executor(server.connection("plain")) for _ in range(count)]
    with server.watch() as traffic, ThreadPoolExecutor(count) as pool:
        results = list(pool.map(lambda nth: executors[nth].run(f"echo {nth}", timeout=60).stdout, range(count)))
    assert results == [b"%d\n" % nth for nth in range(count)]
    assert (traffic.logins, traffic.execs) == (count, count)


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether `condition` comes true in that time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False
