"""Hosts behind jump hosts: one connection each, strict host keys on every hop, a shared connection to the jump host."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.errors import HostKeyError, InventoryError, Unreachable
from provisioner.model.inventory import Connection, Host, Inventory
from provisioner.transport.connect import connector
from tests.sshd import server as sshd
from tests.sshd.conftest import Open
from tests.sshd.server import Server


@pytest.fixture(scope="module")
def bastion(server: Server) -> Iterator[Server]:
    with sshd.running("MaxStartups 2") as running:
        yield running


def behind(server: Server, jump: str, **more: object) -> Connection:
    return replace(server.connection("plain", **more), jump=jump)  # type: ignore[arg-type]


def test_a_host_of_the_inventory(server: Server, bastion: Server, open_executor: Open) -> None:
    executor = open_executor(behind(server, "bastion"), bastion=bastion.connection("barred"))
    with server.watch() as traffic, bastion.watch() as passed:
        assert [executor.run("id -u", timeout=20).stdout for _ in range(2)] == [b"0\n"] * 2
    assert (traffic.logins, traffic.execs) == (1, 2)
    assert (passed.logins, passed.execs) == (1, 0)
    assert (executor.connections, executor.execs) == (1, 2)


def test_an_address(server: Server, bastion: Server, open_executor: Open, tmp_path: Path) -> None:
    known, key = tmp_path / "known_hosts", tmp_path / "key"
    known.write_text(server.known_hosts.read_text() + bastion.known_hosts.read_text())
    key.write_bytes(server.key.read_bytes())
    accepted = bastion.folder / "authorized_keys"
    accepted.write_text(accepted.read_text() + server.key.with_suffix(".pub").read_text())
    executor = open_executor(behind(server, f"barred@127.0.0.1:{bastion.port}", known_hosts=known, key=key))
    with bastion.watch() as passed:
        assert executor.run("id -u", timeout=20).stdout == b"0\n"
    assert passed.logins == 1


def test_a_chain(server: Server, bastion: Server, open_executor: Open) -> None:
    """gpu01 behind inner behind outer."""
    executor = open_executor(
        behind(server, "inner"),
        inner=replace(bastion.connection("barred"), jump="outer"),
        outer=server.connection("barred"),
    )
    with server.watch() as traffic, bastion.watch() as passed:
        assert executor.run("id -u", timeout=20).stdout == b"0\n"
    assert (traffic.logins, traffic.execs, passed.logins) == (2, 1, 1)


def test_many_hosts_share_the_connection_to_the_jump_host(server: Server, bastion: Server) -> None:
    """The bastion takes two logins at a time (MaxStartups): a connection for each host would be dropped."""
    hosts = [Host(f"gpu{nth:02}", behind(server, "bastion")) for nth in range(10)]
    inventory = Inventory(Path("site.toml"), "gpu-node", (*hosts, Host("bastion", bastion.connection("barred"))))
    connect = connector(inventory)
    executors = [connect(host) for host in hosts]
    with bastion.watch() as passed, ThreadPoolExecutor(10) as pool:
        outputs = list(pool.map(lambda each: each.run("id -u", timeout=60).stdout, executors))
    assert outputs == [b"0\n"] * 10
    assert passed.logins == 1
    for executor in executors:
        executor.close()
    with bastion.watch() as passed:
        assert executors[0].run("id -u", timeout=20).stdout == b"0\n"
        executors[0].close()
    assert passed.logins == 1


def test_the_jump_hosts_key_is_checked(server: Server, bastion: Server, open_executor: Open, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.touch()
    executor = open_executor(behind(server, "bastion"), bastion=bastion.connection("barred", known_hosts=empty))
    with server.watch() as traffic, pytest.raises(HostKeyError) as caught:
        executor.run("true", timeout=20)
    assert bastion.name in caught.value.what
    assert traffic.logins == 0


def test_a_host_that_the_jump_host_does_not_reach(server: Server, bastion: Server, open_executor: Open) -> None:
    executor = open_executor(replace(behind(server, "bastion"), port=1), bastion=bastion.connection("barred"))
    with pytest.raises(Unreachable, match="jump host"):
        executor.run("true", timeout=20)


def test_a_jump_host_that_is_down_fails_all_at_once(server: Server) -> None:
    hosts = [Host(f"gpu{nth:02}", behind(server, "bastion")) for nth in range(4)]
    down = replace(server.connection(), port=1)
    connect = connector(Inventory(Path("site.toml"), "gpu-node", (*hosts, Host("bastion", down))))
    for host in hosts:
        with pytest.raises(Unreachable, match="jump host bastion"):
            connect(host).run("true", timeout=20)


def test_a_circle(server: Server, bastion: Server, open_executor: Open) -> None:
    with pytest.raises(InventoryError, match="gpu01 → bastion → gpu01"):
        open_executor(behind(server, "bastion"), bastion=replace(bastion.connection(), jump="gpu01"))
