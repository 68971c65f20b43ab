"""Fixtures for tests against a cluster. ``tests/conftest.py`` offers them to all tests.

cluster  a cluster without nodes, new for each test
kubectl  the real kubectl of the virtual environment, as any user of that cluster
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl

_shared: list[Cluster] = []
"""The real API server takes seconds to start: all tests share it and leave it empty."""


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
def kubectl(cluster: Cluster, tmp_path: Path) -> Iterator[Kubectl]:
    folder = tmp_path / "kubectl"
    folder.mkdir()
    made = Kubectl(cluster, folder)
    yield made
    made.close()


def stop_shared() -> None:
    while _shared:
        _shared.pop().stop()


def which() -> str:
    """What the tests' header says about the API server."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return f"cluster: real kube-apiserver and etcd from {assets}"
    return "cluster: the API server of tests/cluster (KUBEBUILDER_ASSETS would name a real one)"
