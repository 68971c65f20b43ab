"""This machine as a host."""

from __future__ import annotations

import os
import threading
import time

import pytest

from provisioner.errors import Disconnected
from provisioner.model.inventory import Connection, Host
from provisioner.transport.local import LocalExecutor


@pytest.fixture
def executor() -> LocalExecutor:
    if os.geteuid() != 0:
        pytest.skip("scripts on this machine run as root, which this user is not")
    return LocalExecutor(Host("here", Connection("127.0.0.1", become="none")))


def test_a_script_runs_with_the_controller_as_its_anchor(executor: LocalExecutor) -> None:
    done = executor.run("id -u; echo $PROVISION_ANCHOR; cat; echo err >&2; exit 3", timeout=20)
    assert (done.rc, done.stderr) == (3, b"err\n")
    assert done.stdout == f"0\n{os.getpid()}\n".encode()
    assert (executor.connections, executor.execs) == (1, 1)


def test_megabytes_both_ways(executor: LocalExecutor) -> None:
    done = executor.run("# " + "x" * 3_000_000 + "\nhead -c 5000000 /dev/zero", timeout=30)
    assert len(done.stdout) == 5_000_000


def test_time_runs_out(executor: LocalExecutor) -> None:
    with pytest.raises(Disconnected, match=r"within 0\.2 s"):
        executor.run("sleep 1", timeout=0.2)


def test_close_ends_a_run_and_not_the_script(executor: LocalExecutor, tmp_path: os.PathLike[str]) -> None:
    threading.Timer(0.2, executor.close).start()
    started = time.monotonic()
    with pytest.raises(Disconnected, match="stopped"):
        executor.run(f"trap '' PIPE; sleep 1; echo more; echo done > {tmp_path}/proof", timeout=20)
    assert time.monotonic() - started < 0.9
    time.sleep(1.5)
    assert os.path.exists(f"{tmp_path}/proof")
    executor.close()
