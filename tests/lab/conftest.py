"""Fixtures for tests on the lab's hosts. Every test below this folder carries the marker ``lab``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, LabHost
from tests.lab.site import Site

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("lab")


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The lab with the three hosts of inventories/lab.toml running, as they are."""
    lab = Lab()
    lab.up()
    return lab


@pytest.fixture
def pristine(lab: Lab) -> Iterator[Callable[[str], LabHost]]:
    """``pristine("gpu-x")`` is that host, bare and healthy; a host stopped by the test is left removed."""
    used: list[LabHost] = []

    def get(name: str) -> LabHost:
        lab.reset(name)
        used.append(lab.host(name))
        return lab.host(name)

    yield get
    for host in used:
        if not host.running():
            host.remove()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty folder for an inventory and a playbook, with a state folder of its own."""
    return Site(tmp_path)
