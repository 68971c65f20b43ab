"""Hosts with a driver, a cluster over them and a site: what every test of a roll stands on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.lab import Lab, LabHost
from tests.lab.site import Site
from tests.roll.scene import FIRST, RBAC, VERSIONS, Scene, installed, inventory, loaded

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
def locks() -> dict[str, str]:
    """Version → its lock file's text."""
    return {}


def sound(host: LabHost) -> bool:
    """Is the host as a roll may find it: one of the two drivers, whole, and in the kernel?"""
    if not host.running():
        return False
    host.card.repair()
    version = loaded(host)
    checked = host.exec("dpkg --audit; systemctl is-active nvidia-persistenced; nvidia-smi -L | wc -l")
    return version in VERSIONS and installed(host) == version and checked.stdout.split() == ["active", "2"]


@pytest.fixture(scope="session")
def prepared(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], dict[str, LabHost]]:
    """Hosts with a working driver: those that have one are taken as they are, the others are made anew."""

    def get(names: tuple[str, ...]) -> dict[str, LabHost]:
        hosts = {name: lab.host(name) for name in names}
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(sound, hosts.values()))
        missing = [host for host, good in zip(hosts.values(), found, strict=True) if not good]
        if {loaded(host) for host in hosts.values()} >= set(VERSIONS):
            missing = list(hosts.values())
        if missing:
            lab.reset(*(host.name for host in missing))
            site = Site(tmp_path_factory.mktemp("first"))
            site.write(*missing, text=inventory(FIRST))
            for verb in (("lock",), ("apply", "--yes", "--disruptive")):
                done = site.run(*verb)
                assert done.returncode == 0, done.stdout + done.stderr
        return hosts

    return get


@pytest.fixture
def scene(
    prepared: Callable[[tuple[str, ...]], dict[str, LabHost]],
    cluster: Cluster,
    kubectl: Kubectl,
    tmp_path: Path,
    locks: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Scene]:
    """``scene("gpu-k", "gpu-l")``: these hosts as nodes of a new cluster, and an inventory that wants of all the
    version that none of them has."""

    def make(*names: str, plain: bool = False) -> Scene:
        site = Site(tmp_path)
        monkeypatch.setenv("PROVISION_STATE_DIR", str(tmp_path / "state"))
        made = Scene(cluster, kubectl, site, prepared(names), locks)
        if not plain:
            kubectl("apply", "-f", str(RBAC))
            for name in names:
                made.join(name)
            made.furnish()
        made.write(made.target(), plain=plain)
        return made

    return make
