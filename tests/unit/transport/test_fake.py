"""The executors that other tests lean on."""

from __future__ import annotations

import os

import pytest

from provisioner.errors import Disconnected
from provisioner.model.inventory import Connection, Host
from provisioner.transport.executor import Completed, Connector, Executor
from provisioner.transport.fake import FakeExecutor, ShellExecutor, fake_connector


def test_answers_in_turn_and_what_was_run() -> None:
    lost = Disconnected("lost")
    executor = FakeExecutor(
        "gpu01", (Completed(0, b"one", b""), lost, lambda script: Completed(1, script.encode(), b""))
    )
    assert executor.run("a", timeout=1).stdout == b"one"
    with pytest.raises(Disconnected):
        executor.run("b", timeout=2)
    assert executor.run("c", timeout=3).stdout == b"c"
    assert executor.run("d", timeout=4).stdout == b"d"
    assert (executor.scripts, executor.timeouts) == (["a", "b", "c", "d"], [1, 2, 3, 4])
    assert (executor.connections, executor.execs) == (2, 4)


def test_a_shell_with_stand_ins(tmp_path: os.PathLike[str]) -> None:
    with open(f"{tmp_path}/nvidia-smi", "w") as file:
        file.write("#!/bin/sh\necho stand-in\n")
    os.chmod(f"{tmp_path}/nvidia-smi", 0o755)
    executor = ShellExecutor("gpu01", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = executor.run("nvidia-smi; cat; echo $PROVISION_ANCHOR; exit 4", timeout=10)
    assert (done.rc, done.stdout) == (4, f"stand-in\n{os.getpid()}\n".encode())
    with pytest.raises(Disconnected):
        executor.run("sleep 2", timeout=0.1)


def test_they_fit_the_protocols() -> None:
    host = Host("gpu01", Connection("gpu01"))
    executor: Executor = FakeExecutor(host)
    connect: Connector = fake_connector({"gpu01": executor})
    assert connect(host) is executor
