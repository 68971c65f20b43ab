"""The tests' own way into a machine: commands as root through an sshd of their own, over one lasting connection."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab.engine import LabError
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS

#: Where that sshd listens in the guest.
GUEST_PORT = 2222


class Access:
    """``port``: where the guest's second sshd answers on 127.0.0.1; ``known_as``: the port that its key is known by."""

    def __init__(self, folder: Path, port: int, known_as: int) -> None:
        self._socket = folder / "ssh"
        self._log = folder / "ssh.log"
        self._master: subprocess.Popen[bytes] | None = None
        options = [
            *("UserKnownHostsFile=" + str(KNOWN_HOSTS), "StrictHostKeyChecking=yes", "BatchMode=yes"),
            *(f"HostKeyAlias=[127.0.0.1]:{known_as}", "ConnectTimeout=10", "LogLevel=ERROR"),
            *("ControlPath=" + str(self._socket), "ServerAliveInterval=0", "CheckHostIP=no"),
        ]
        self._command = ["ssh", "-F", "none", "-i", str(CLIENT_KEY), "-p", str(port), "-l", "root"]
        self._command += [part for option in options for part in ("-o", option)]

    def connect(self, seconds: float, alive: Callable[[], bool]) -> None:
        """Be connected; tries again until the time is up or the machine is off, then raises ``LabError``."""
        end = time.monotonic() + seconds
        while not self.connected():
            self.close()
            if not alive():
                raise LabError("the machine is off")
            if time.monotonic() > end:
                said = self._log.read_text(errors="replace")[-500:] if self._log.exists() else ""
                raise LabError(f"no connection to the machine within {seconds:.0f} s; ssh says:\n{said}")
            with self._log.open("wb") as log:
                self._master = subprocess.Popen(
                    [*self._command, "-M", "-N", "127.0.0.1"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            while self._master.poll() is None and not self._socket.exists():
                time.sleep(0.03)
            if self._master.poll() is not None:
                time.sleep(0.2)

    def connected(self) -> bool:
        return self._master is not None and self._master.poll() is None and self._socket.exists()

    def run(
        self, command: str, *, data: bytes | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a shell command as root, over the connection that ``connect`` made."""
        return subprocess.run(
            [*self._command, "127.0.0.1", command],
            input=b"" if data is None else data,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def close(self) -> None:
        """End the connection; the machine notices nothing that a test would look at."""
        if self._master is not None:
            self._master.terminate()
            self._master.wait()
            self._master = None
        self._socket.unlink(missing_ok=True)
