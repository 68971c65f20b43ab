"""Every kind of config.toml that hosts have, on containerd 1.6, 1.7 and 2: laid down, applied, and read back from the
running containerd through CRI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner import api
from tests.lab import Lab, LabHost
from tests.lab.containerdhosts import BOOK, CONFIG, RELEASES, TRIO, statuses, variables, with_toolkit
from tests.lab.site import Site
from tests.unit.containerd.seen import case
from tests.unit.containerd.test_cases import RIGHT, wanted

EVERY = 4
"""Each fourth case is also brought to the other mode; the editor's own tests do it with all."""


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> list[LabHost]:
    return with_toolkit(lab, *TRIO)


@pytest.fixture(scope="module")
def sites(hosts: list[LabHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    """An inventory for each mode."""
    folder = tmp_path_factory.mktemp("sites")
    made = {}
    for mode in ("default", "runtimeclass"):
        (folder / mode).mkdir()
        made[mode] = Site(folder / mode)
        made[mode].write(*hosts, text=variables(mode), playbook=BOOK)
    before = os.environ.get("PROVISION_STATE_DIR")
    os.environ["PROVISION_STATE_DIR"] = str(folder / "state")
    yield made
    if before is None:
        del os.environ["PROVISION_STATE_DIR"]
    else:
        os.environ["PROVISION_STATE_DIR"] = before


def applied(inventory: Path) -> api.RunResult:
    with api.open(inventory) as session:
        return session.apply(session.plan())


def lay_down(hosts: list[LabHost], name: str) -> None:
    for host in hosts:
        if name == "no-file":
            host.exec(f"rm -f {CONFIG}", check=True)
        else:
            host.put(CONFIG, case(name))


def expected(name: str, mode: str) -> dict[str, str]:
    """Host → the line that its CRI must give; hosts whose containerd can't have this file are left out."""
    handlers = {host: wanted(name, release) for host, release in RELEASES.items()}
    default = "nvidia" if mode == "default" else RIGHT[name][2]
    return {
        host: f"default={default} {line}".replace("sd=-", "sd=False")
        for host, line in handlers.items()
        if line != "refused"
    }


@pytest.mark.parametrize(("number", "name"), list(enumerate(RIGHT)))
def test_case(hosts: list[LabHost], sites: dict[str, Site], number: int, name: str) -> None:
    first, second = ("default", "runtimeclass") if number % 2 else ("runtimeclass", "default")
    lay_down(hosts, name)
    result = applied(sites[first].inventory)
    right = expected(name, first)
    for host in hosts:
        answer = result.hosts[host.name]
        if host.name in right:
            assert answer.status is api.Status.CHANGED, (answer, [outcome.output for outcome in answer.outcomes])
            assert host.exec(f"ls {CONFIG}.*").returncode, "no candidate is left"
        else:
            assert answer.status is api.Status.REFUSED
            assert answer.refusals[0].why
            assert answer.refusals[0].remedy
            assert host.get(CONFIG) == case(name), "nothing was changed"
    able = [host for host in hosts if host.name in right]
    if able:
        assert statuses(able) == right
    if able and number % EVERY == 0:
        applied(sites[second].inventory)
        assert statuses(able) == expected(name, second)
