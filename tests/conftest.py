"""Fixtures that tests in any folder use: a Kubernetes cluster and kubectl."""

from tests.cluster.fixtures import cluster, kubectl, stop_shared, which

__all__ = ["cluster", "kubectl"]


def pytest_report_header() -> str:
    return which()


def pytest_unconfigure() -> None:
    stop_shared()
