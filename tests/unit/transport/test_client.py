"""What the connection itself is set to."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from provisioner.transport.client import DEAD_AFTER_MS, Wire


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()[:2]) as near,
    ):
        far, _ = listening.accept()
        with far:
            yield near, far


def test_small_messages_are_sent_at_once_and_a_dead_host_is_given_up(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    Wire(ends[0])
    assert ends[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert ends[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert ends[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == DEAD_AFTER_MS


def test_close_wakes_whoever_waits_for_data(ends: tuple[socket.socket, socket.socket]) -> None:
    wire = Wire(ends[0])
    wire.settimeout(30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wire.recv, 10)
        time.sleep(0.2)
        wire.close()
        assert waiting.result(timeout=5) == b""


def test_data_passes_both_ways(ends: tuple[socket.socket, socket.socket]) -> None:
    wire = Wire(ends[0])
    assert wire.send(b"out") == 3
    assert ends[1].recv(10) == b"out"
    ends[1].sendall(b"in")
    assert wire.recv(10) == b"in"
