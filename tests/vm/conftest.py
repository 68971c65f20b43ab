"""Fixtures for tests on machines with a kernel of their own. Every test below this folder carries the marker ``vm``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.lab.site import Site
from tests.vm.engine import refusal
from tests.vm.machine import Machine
from tests.vm.making import Making, make
from tests.vm.states import Images, images

HERE = Path(__file__).parent
#: Another name lets two runs of these tests go side by side.
NAME = os.environ.get("PROVISION_VM", "vm-a")
State = Literal["bare", "node", "cold"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("vm")


@pytest.fixture(scope="session", name="images")
def built() -> Images:
    """Disks and the saved state "bare", built where they are missing."""
    if refusal():
        pytest.skip(refusal())
    return images()


@pytest.fixture(scope="session")
def making(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Making]:
    """How the product made a GPU node of a machine with two cards; its state is what ``vm("node")`` loads."""
    folder = tmp_path_factory.mktemp("node")
    machine = images.machine(NAME)
    try:
        machine.load(images.bare, cards=2)
        made = make(machine, Site(folder), folder / "node.qcow2")
    finally:
        machine.remove()
    yield made
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
        return machine

    yield get
    for machine in made:
        machine.remove()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An empty folder for an inventory and a playbook, with a state folder of its own."""
    return Site(tmp_path)
