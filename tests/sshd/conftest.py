"""Servers for the tests of the real transport, and executors that work through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioner.model.inventory import Connection, Host, Inventory
from provisioner.transport.connect import connector
from provisioner.transport.executor import Executor
from tests.sshd import server as sshd

Open = Callable[..., Executor]


@pytest.fixture(scope="session")
def server() -> Iterator[sshd.Server]:
    """One real sshd for all tests that don't need a special one."""
    reason = sshd.why_not()
    if reason:
        pytest.skip(f"no sshd to test with: {reason}")
    with sshd.running() as running:
        yield running


@pytest.fixture
def warnings() -> list[tuple[str, str]]:
    """What the transport told people: (host, text)."""
    return []


@pytest.fixture
def open_executor(warnings: list[tuple[str, str]]) -> Iterator[Open]:
    """Makes an executor for the first of some hosts, given as connections by name; all are closed at the end."""
    opened: list[Executor] = []

    def opener(connection: Connection, **others: Connection) -> Executor:
        hosts = tuple(Host(name, each) for name, each in {"gpu01": connection, **others}.items())
        inventory = Inventory(Path("site.toml"), "gpu-node", hosts)
        connect = connector(inventory, warn=lambda host, text: warnings.append((host, text)))
        opened.append(connect(hosts[0]))
        return opened[-1]

    yield opener
    for executor in opened:
        executor.close()
