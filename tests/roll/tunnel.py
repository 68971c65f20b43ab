"""kubectl on a host: program, kubeconfig, and a way from there to the test's API, which listens on 127.0.0.1 only."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.cluster.kubectl import kubectl_path
from tests.lab import LabHost
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS
from tests.roll.scene import ACCOUNT, Scene

PROGRAM, KUBECONFIG = "/usr/local/bin/kubectl", "/root/cluster.kubeconfig"


class Tunnel:
    """While the block lasts, port PORT of the host's 127.0.0.1 is the API. A restart of the host only interrupts it."""

    def __init__(self, made: Scene, host: LabHost) -> None:
        self._host = host
        self._config = made.kubectl.config(ACCOUNT).read_bytes()
        forwarded = f"127.0.0.1:{made.cluster.port}:127.0.0.1:{made.cluster.port}"
        self._command = ["ssh", "-N", "-i", str(CLIENT_KEY), "-p", str(host.port), "-R", forwarded]
        for option in (
            f"UserKnownHostsFile={KNOWN_HOSTS}",
            "BatchMode=yes",
            "ExitOnForwardFailure=yes",
            "ServerAliveInterval=1",
            "ConnectTimeout=3",
        ):
            self._command += ["-o", option]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._host.put(PROGRAM, Path(kubectl_path()).read_bytes(), mode=0o755)
        self._host.put(KUBECONFIG, self._config, mode=0o600)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._running is not None:
            self._running.kill()
        self._thread.join()
        self._host.exec(f"rm -rf {PROGRAM} {KUBECONFIG} /root/.kube")

    def _keep(self) -> None:
        while not self._over.wait(0.5):
            with subprocess.Popen([*self._command, "root@127.0.0.1"], stderr=subprocess.DEVNULL) as self._running:
                if self._over.is_set():
                    self._running.kill()
