"""QEMU's control socket: commands, their answers, and the events in between."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.engine import LabError


class Qmp:
    """One connection; it ends with QEMU."""

    def __init__(self, path: Path, alive: Callable[[], bool], *, seconds: float = 60) -> None:
        self._reason = ""
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._turn = threading.Lock()
        self._gone = threading.Condition()
        self._deleted: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end = time.monotonic() + seconds
        while True:
            try:
                self._socket.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if not alive() or time.monotonic() > end:
                    self._socket.close()
                    raise LabError(f"QEMU ended at once, or did not open {path} within {seconds:.0f} s") from None
                time.sleep(0.02)
        self._reader = threading.Thread(target=self._read, name="qmp", daemon=True)
        self._reader.start()
        try:
            self._greeted(seconds)
            self("qmp_capabilities")
        except LabError:
            self.close()
            raise

    def __call__(self, command: str, *, timeout: float = 60, pass_fd: int | None = None, **arguments: Any) -> Any:
        """Run a command and return its ``return``; ``LabError`` with QEMU's words where it refuses."""
        with self._turn:
            text = json.dumps({"execute": command, "arguments": arguments}).encode()
            try:
                if pass_fd is None:
                    self._socket.sendall(text)
                else:
                    socket.send_fds(self._socket, [text], [pass_fd])
                answer = self._answers.get(timeout=timeout)
            except (OSError, queue.Empty) as error:
                raise LabError(f"QEMU did not answer to {command}: {error or 'time is up'}") from None
        if answer is None:
            self._answers.put(None)
            raise LabError(f"QEMU ended before it answered to {command}")
        if "error" in answer:
            raise LabError(f"QEMU refused {command}: {answer['error'].get('desc')}")
        return answer["return"]

    def _greeted(self, seconds: float) -> None:
        try:
            self._answers.get(timeout=seconds)
        except queue.Empty:
            raise LabError(f"QEMU did not greet within {seconds:.0f} s") from None

    def monitor(self, line: str, *, timeout: float = 60) -> str:
        """A command of the human monitor, for what has no other; its words, which are empty where all went well."""
        words: dict[str, Any] = {"command-line": line}
        return str(self("human-monitor-command", timeout=timeout, **words)).strip()

    def wait_deleted(self, device: str, seconds: float) -> bool:
        """Wait until the guest has let go of a device that ``device_del`` asked for."""
        with self._gone:
            return self._gone.wait_for(lambda: device in self._deleted, seconds)

    def expect_deletion(self, device: str) -> None:
        """Forget that a device of this name went before."""
        with self._gone:
            self._deleted.discard(device)

    def shutdown_reason(self) -> str:
        """Once QEMU ended: why, in its words ("guest-reset", "guest-shutdown" …); "" where it didn't say."""
        self._reader.join(10)
        return self._reason

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._take(json.loads(line))
            except OSError:
                pass  # closed by us, or QEMU was killed
        self._answers.put(None)

    def _take(self, message: dict[str, Any]) -> None:
        match message.get("event"):
            case None:
                self._answers.put(message)
            case "SHUTDOWN":
                self._reason = str(message["data"]["reason"])
            case "DEVICE_DELETED":
                with self._gone:
                    self._deleted.add(str(message["data"].get("device", "")))
                    self._gone.notify_all()
