"""Cards: present, as many as expected, driven by the wanted module. Facts in, exact findings out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Unknown
from provisioner.tasks.preflight.cards import CHECKS, generation
from provisioner.tasks.preflight.check import Verdict
from provisioner.tasks.preflight.wanted import Wanted
from tests.unit.tasks.preflight.facts import H100, card, verdict

CHECK = {check.subject: check for check in CHECKS}
SWITCH = PciDevice("0000:c1:00.0", 0x22A3, "0680")


def judge(subject: str, devices: Any, wanted: Wanted) -> Verdict:
    return verdict(CHECK[subject], wanted, {PciProbe(): devices})


@pytest.mark.parametrize("devices", [(), None, (SWITCH,), (card(0x2331, virtual=True),)])
def test_no_card_is_refused(devices: Any) -> None:
    assert judge("cards", devices, Wanted()) == Refusal(
        subject="cards",
        what="no NVIDIA card on the PCI bus",
        why="no device of vendor 10de and class 0300, 0302 or 0380 is listed below /sys/bus/pci/devices",
        remedy="check slot, power and BIOS, or the virtual machine's passthrough; to prepare a host that gets its "
        "cards later, run again with --allow-no-gpu",
    )
    assert judge("cards", devices, Wanted(allow_no_gpu=True)) is None


def test_one_card_is_enough() -> None:
    assert judge("cards", (H100,), Wanted()) is None


def test_an_unreadable_bus_is_not_an_empty_one() -> None:
    for wanted in (Wanted(), Wanted(cards=2)):
        found = judge("cards" if wanted.cards is None else "number of cards", Unknown("/sys is not mounted"), wanted)
        assert isinstance(found, Refusal)
        assert found.what.startswith("can't tell: ")
        assert found.why == "can't tell NVIDIA PCI devices: /sys is not mounted"


def test_too_few_cards() -> None:
    found = judge("number of cards", (H100,), Wanted(cards=2))
    assert isinstance(found, Refusal)
    assert found.what == "1 NVIDIA card on the PCI bus, 2 expected"
    assert found.why == "found 0000:41:00.0 [10de:2331]; gpu.cards says 2"
    # some that are there must be all: --allow-no-gpu only forgives none at all
    assert judge("number of cards", (H100,), Wanted(cards=2, allow_no_gpu=True)) == found
    assert judge("number of cards", (), Wanted(cards=2, allow_no_gpu=True)) is None


def test_too_many_cards() -> None:
    found = judge("number of cards", (H100, card(0x2331, "0000:42:00.0")), Wanted(cards=1))
    assert isinstance(found, Refusal)
    assert found.remedy == "set gpu.cards to 2 if they all belong here"


def test_the_right_number_and_no_expectation() -> None:
    assert judge("number of cards", (H100, SWITCH), Wanted(cards=1)) is None
    assert judge("number of cards", (H100,), Wanted()) is None


@pytest.mark.parametrize(
    ("device", "flavour", "driver", "what"),
    [
        (0x1DB6, "open", "580.95.05", "the open kernel module doesn't drive 0000:41:00.0 [10de:1db6]"),
        (0x1DB6, "proprietary", "590.44.01", "driver 590.44.01 doesn't drive 0000:41:00.0 [10de:1db6]"),
        (0x1DB6, "proprietary", "580.95.05", ""),
        (0x102D, "proprietary", "535.216.03", "driver 535.216.03 doesn't drive 0000:41:00.0 [10de:102d]"),
        (0x102D, "proprietary", "470.256.02", ""),
        (0x1E02, "open", "580.95.05", ""),
        (0x1E02, "proprietary", "590.44.01", ""),
        (0x2331, "open", "580.95.05", ""),  # H100: either flavour drives it
        (0x2331, "proprietary", "580.95.05", ""),
        (0x2342, "proprietary", "580.95.05", "the proprietary kernel module doesn't drive 0000:41:00.0 [10de:2342]"),
        (0x2901, "open", "580.95.05", ""),
        (
            0x2901,
            "proprietary",
            "580.95.05",
            "the proprietary kernel module doesn't drive 0000:41:00.0 [10de:2901]",
        ),
    ],
)
def test_flavour_and_branch_fit_the_card(device: int, flavour: str, driver: str, what: str) -> None:
    found = judge("flavour", (card(device),), Wanted(driver=driver, flavour=flavour))
    assert (found.what if isinstance(found, Refusal) else "") == what


def test_the_remedy_names_flavour_and_branch() -> None:
    found = judge("flavour", (card(0x1DB6),), Wanted(driver="590.44.01", flavour="open"))
    assert isinstance(found, Refusal)
    assert found.remedy == (
        'set versions.flavour = "proprietary" for this host or its group, with a driver of branch 580 or older'
    )


def test_flavour_is_checked_for_cards_present_even_when_none_are_required() -> None:
    assert judge("flavour", (card(0x2901),), Wanted(flavour="proprietary", allow_no_gpu=True)) is not None
    assert judge("flavour", (), Wanted(flavour="proprietary", allow_no_gpu=True)) is None


def test_generations() -> None:
    assert generation(card(0x20B0)).name == "Turing to Hopper"
    assert generation(card(0x1DFF)).name == "Maxwell, Pascal or Volta"


def test_passthrough_and_missing_memory_windows_are_notes() -> None:
    held = judge("passthrough", (dataclasses.replace(H100, driver="vfio-pci"),), Wanted())
    assert isinstance(held, Note)
    assert held.text.startswith("vfio-pci holds 0000:41:00.0 [10de:2331]")
    bare = judge("PCI memory", (dataclasses.replace(H100, bars=((0, 0), (0, 0))),), Wanted())
    assert isinstance(bare, Note)
    assert judge("passthrough", (H100,), Wanted()) is None
    assert judge("PCI memory", (dataclasses.replace(H100, bars=()), H100), Wanted()) is None
