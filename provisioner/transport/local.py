"""Scripts on this very machine, for image builds and for a node that provisions itself."""

from __future__ import annotations

import contextlib
import getpass
import os
import selectors
import subprocess
import threading
import time

from provisioner.errors import Disconnected
from provisioner.model.inventory import Host
from provisioner.transport.exchange import UNKNOWN, Cut, NotRun, WrongPassword, command, converse
from provisioner.transport.executor import Completed
from provisioner.transport.sudo import refusal, wrong_password

_CHUNK = 1 << 16


class ProcessPipe:
    """A child process, as `converse` wants it."""

    cancelled = False

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._wake, self._woken = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ, -1)
        for nth, stream in enumerate((process.stdout, process.stderr)):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ, nth)

    def write(self, data: bytes, deadline: float) -> None:
        stream = self._process.stdin
        assert stream is not None
        stream.write(data)
        stream.flush()

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def read(self, deadline: float) -> tuple[bytes, bytes] | None:
        while len(self._selector.get_map()) > 1:
            left = deadline - time.monotonic()
            ready = self._selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            came = [b"", b""]
            for key, _ in ready:
                if key.data < 0:
                    return None
                came[key.data] = os.read(key.fd, _CHUNK)
                if not came[key.data]:
                    self._selector.unregister(key.fileobj)
            if any(came):
                return came[0], came[1]
        return None

    def status(self) -> int | None:
        return self._process.poll() if self.cancelled else self._process.wait()

    def cancel(self) -> None:
        """Make a `read` in another thread end."""
        self.cancelled = True
        os.write(self._woken, b"x")

    def close(self) -> None:
        """Let go of the streams. The process is waited for elsewhere if it still runs: nothing may kill it."""
        self._selector.close()
        os.close(self._wake)
        os.close(self._woken)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        try:
            self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            threading.Thread(target=self._process.wait, daemon=True).start()


class LocalExecutor:
    """The Executor for this machine: sh, by sudo when this process isn't root's. The anchor is this process."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.connections = 0
        self.execs = 0
        self._pipe: ProcessPipe | None = None
        self._lock = threading.Lock()

    def run(self, script: str, *, timeout: float) -> Completed:
        """See Executor.run."""
        connection = self.host.connection
        secret = connection.sudo_password
        password = secret.value if secret is not None and connection.become != "none" and os.geteuid() else None
        program = command(connection.become, password=password is not None, anchor=str(os.getpid()))
        process = subprocess.Popen(
            ["/bin/sh", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the controller: it lets a script that runs come to its end
        )
        pipe = ProcessPipe(process)
        with self._lock:
            self._pipe = pipe
        self.connections = 1
        self.execs += 1
        name, user = self.host.name, getpass.getuser()
        try:
            return converse(pipe, script, password=password, timeout=timeout)
        except WrongPassword:
            raise wrong_password(name, user) from None
        except NotRun as ended:
            raise refusal(name, user, ended) from None
        except Cut:
            why = "the run was stopped" if pipe.cancelled else "its output ended: its shell was killed"
            raise Disconnected(f"{name}: a script gave no result", why=why, remedy=UNKNOWN) from None
        except TimeoutError:
            raise Disconnected(
                f"{name}: no result of a script within {timeout:g} s", why="it still runs", remedy=UNKNOWN
            ) from None
        finally:
            with self._lock:
                self._pipe = None
            pipe.close()

    def close(self) -> None:
        """See Executor.close; a `run` in another thread raises Disconnected."""
        with self._lock:
            if self._pipe is not None:
                self._pipe.cancel()
