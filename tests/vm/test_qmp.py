"""The control socket of a QEMU that ends before it answers: named, and nothing is left open."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.lab.engine import LabError
from tests.vm.qmp import Qmp

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\n'


@pytest.mark.parametrize("first", [b"", GREETING], ids=["before its greeting", "after its greeting"])
def test_a_qemu_that_ends_at_once_is_an_error_and_leaves_no_socket_and_no_thread(tmp_path: Path, first: bytes) -> None:
    path = tmp_path / "qmp.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()

        def end() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(first)

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(LabError, match="qmp_capabilities"):
            Qmp(path, lambda: True, seconds=5)
        ending.join()
    for thread in threading.enumerate():
        if thread.name == "qmp":
            thread.join(5)
            assert not thread.is_alive()
