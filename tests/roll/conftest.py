"""Hosts with a driver, a cluster over them and a site: what every test of a roll stands on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.lab import Lab, LabHost
from tests.lab.site import Site
from tests.roll.prepared import prepare, unsound
from tests.roll.scene import FIRST, RBAC, VERSIONS, Locks, Scene, loaded

HERE = Path(__file__).parent
NODES = ("gpu-k", "gpu-l", "gpu-m")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("lab")


@pytest.fixture(scope="session")
def lab() -> Lab:
    lab = Lab()
    lab.up(*NODES)
    return lab


@pytest.fixture(scope="session")
def locks() -> Locks:
    """The locks that were made so far."""
    return {}


@pytest.fixture(scope="session")
def prepared(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, LabHost]]:
    """Hosts with a working driver: those that have one are taken as they are, the others are made anew; so are all
    that differ from the first driver, where the hosts are to be `alike` and aren't."""

    def get(names: tuple[str, ...], alike: bool = False) -> dict[str, LabHost]:
        hosts = {name: lab.host(name) for name in names}
        missing = unsound(list(hosts.values()))
        if {loaded(host) for host in hosts.values()} >= set(VERSIONS):
            missing = list(hosts.values())
        left = [host for host in hosts.values() if host not in missing]
        if alike and len({loaded(host) for host in left} | ({FIRST} if missing else set())) > 1:
            missing += [host for host in left if loaded(host) != FIRST]
        if missing:
            prepare(lab, missing, tmp_path_factory.mktemp("first"))
        return hosts

    return get


@pytest.fixture
def bare(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, LabHost]], Scene]:
    """A new cluster without nodes, in which a roll has its rights, beside these hosts."""

    def make(hosts: dict[str, LabHost]) -> Scene:
        monkeypatch.setenv("PROVISION_STATE_DIR", str(tmp_path / "state"))
        kubectl("apply", "-f", str(RBAC))
        return Scene(cluster, kubectl, Site(tmp_path), hosts, locks)

    return make


@pytest.fixture
def scene(
    prepared: Callable[..., dict[str, LabHost]], bare: Callable[[dict[str, LabHost]], Scene]
) -> Callable[..., Scene]:
    """``scene("gpu-k", "gpu-l")``: these hosts as nodes of a new cluster, and an inventory that wants of all the
    version that none of them has. ``alike``: all of them have one and the same now."""

    def make(*names: str, plain: bool = False, alike: bool = False) -> Scene:
        made = bare(prepared(names, alike))
        if not plain:
            for name in names:
                made.join(name)
            made.furnish()
        made.write(made.target(), plain=plain)
        return made

    return make
