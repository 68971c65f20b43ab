"""Fixtures for tests on machines with a kernel of their own. Every test below this folder carries the marker ``vm``."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.lab.paths import MACHINES
from tests.lab.site import Site
from tests.vm.cached import held
from tests.vm.engine import refusal
from tests.vm.machine import Machine
from tests.vm.making import Making, make
from tests.vm.states import Images, images

HERE = Path(__file__).parent
#: Each of several processes (pytest-xdist) has a machine of its own. The first machine is for people, the last one for
#: a saved state.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
OURS = list(MACHINES)[1:-1]
if len(OURS) <= WORKER:
    raise pytest.UsageError(f"machines are there for {len(OURS)} processes at most")
NAME = OURS[WORKER]
State = Literal["bare", "node", "cold"]
#: A card that is plugged in starts the node's own unit, which loads nvidia_uvm: not under a test that takes it out.
QUIET = 'for _ in $(seq 300); do [ -n "$(systemctl list-jobs --no-legend)" ] || exit 0; sleep 0.1; done; exit 1'

#: The longest come first; what isn't named here comes last.
ORDER = ("fresh", "secureboot", "boot", "upgrade", "kernels", "selftest")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker("vm")
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = side_by_side(ours, [item for item in items if HERE not in item.path.parents])


def side_by_side(ours: list[pytest.Item], theirs: list[pytest.Item]) -> list[pytest.Item]:
    """An order for two processes, which begin with the first two items and the next two. While one builds what is
    missing and makes the node, the other has what isn't about machines at all, then Secure Boot, which does without."""
    ranks = {f"test_{name}": rank for rank, name in enumerate(ORDER)}
    ours = sorted(ours, key=lambda item: ranks.get(item.path.stem, len(ranks)))
    fresh = [item for item in ours if item.path.stem == "test_fresh"]
    cold = [item for item in ours if item.path.stem == "test_secureboot"]
    rest = [item for item in ours if item not in fresh and item not in cold]
    return [*fresh[:2], *theirs, *cold, *rest, *fresh[2:]]


@pytest.fixture(scope="session", name="images")
def built() -> Images:
    """Disks and the saved state "bare", built where they are missing."""
    if refusal():
        pytest.skip(refusal())
    return images()


@pytest.fixture(scope="session")
def making(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Making]:
    """How the product made a GPU node of a machine with two cards; its state is what ``vm("node")`` loads. Of several
    processes the first makes it, and the last one takes its state away."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "node"
    folder.mkdir(exist_ok=True)
    told, users = folder / "making.pickle", folder / "users"
    with held(folder / "lock"):
        if not told.exists():
            machine = images.machine(NAME)
            try:
                machine.load(images.bare, cards=2)
                told.write_bytes(pickle.dumps(make(machine, Site(folder), folder / "node.qcow2")))
            finally:
                machine.remove()
        made: Making = pickle.loads(told.read_bytes())
        users.mkdir(exist_ok=True)
        (users / NAME).touch()
    yield made
    with held(folder / "lock"):
        (users / NAME).unlink()
        if not any(users.iterdir()):
            told.unlink()
            made.state.unlink()


@pytest.fixture
def vm(images: Images, request: pytest.FixtureRequest) -> Iterator[Callable[..., Machine]]:
    """``vm("bare", cards=1)`` is a running machine of the test's own, gone when the test ends.

    "bare": loaded, nothing of NVIDIA on it, nouveau bound to the cards. "node": loaded, what the product made of a bare
    machine with two cards, after a reboot. "cold": booted from the system's disk with the cards in their slots; it is
    the only way to a machine with Secure Boot on (True) or off (False).
    """
    made: list[Machine] = []

    def get(state: State = "bare", *, cards: int = 1, name: str = NAME, secure_boot: bool | None = None) -> Machine:
        machine = images.machine(name, secure_boot=secure_boot)
        made.append(machine)
        if state == "cold":
            for card in range(cards):
                machine.plug(card)
            machine.start()
        else:
            machine.load(images.bare if state == "bare" else request.getfixturevalue("making").state, cards=cards)
            machine.exec(QUIET, check=True)
        return machine

    yield get
    for machine in made:
        machine.remove()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty folder for an inventory and a playbook, with a state folder of its own."""
    return Site(tmp_path)
