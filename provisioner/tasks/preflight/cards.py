"""Are the cards there, how many, and does the module flavour fit them?"""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.facts.gpu import PciDevice, PciProbe
from provisioner.model.change import Note, Refusal
from provisioner.model.fact import Facts
from provisioner.tasks.preflight.check import Check, Verdict
from provisioner.tasks.preflight.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Generation:
    """A range of PCI device ids, from `first` to below the next entry. `flavours` that drive it; `last_branch`
    the last driver branch with support, None while there is none.

    Sources: the open module's list of supported cards begins at 1E02 and its README says Turing and later; the
    driver README ("kernel_open") says the proprietary module covers Turing and later until Blackwell, so Hopper
    takes either. R470 is the last branch for Kepler, R580 for Maxwell, Pascal and Volta. Ids of Blackwell begin
    at 2900; the ranges are a heuristic, since ids aren't handed out strictly in order.
    """

    first: int
    name: str
    flavours: tuple[str, ...]
    last_branch: int | None = None


GENERATIONS = (
    Generation(0x0000, "Kepler or older", ("proprietary",), 470),
    Generation(0x1340, "Maxwell, Pascal or Volta", ("proprietary",), 580),
    Generation(0x1E00, "Turing to Hopper", ("open", "proprietary")),
    Generation(0x2900, "Blackwell or newer", ("open",)),
)


GRACE_HOPPER = (0x2342, 0x2345)
"""GH200 with 120 and 480 GB: Hopper, but on a Grace CPU, which only the open module supports (the ids: Linux,
nvgrace-gpu-vfio-pci; the rule: NVIDIA's driver installation guide, kernel modules)."""


def generation(card: PciDevice) -> Generation:
    """The generation that a card's device id lies in."""
    if card.device in GRACE_HOPPER:
        return Generation(card.device, "Grace Hopper", ("open",))
    return [entry for entry in GENERATIONS if card.device >= entry.first][-1]


def cards(facts: Facts) -> tuple[PciDevice, ...]:
    """The cards on the bus. Raises FactUnknown when it couldn't be read: unknown isn't none."""
    return tuple(device for device in facts.get(PciProbe()) or () if device.is_card)


def present(facts: Facts, wanted: Wanted) -> Verdict:
    """At least one card."""
    if wanted.allow_no_gpu or cards(facts):
        return None
    return Refusal(
        subject="cards",
        what="no NVIDIA card on the PCI bus",
        why="no device of vendor 10de and class 0300, 0302 or 0380 is listed below /sys/bus/pci/devices",
        remedy="check slot, power and BIOS, or the virtual machine's passthrough; to prepare a host that gets its "
        "cards later, run again with --allow-no-gpu",
    )


def number(facts: Facts, wanted: Wanted) -> Verdict:
    """As many cards as the inventory expects. With --allow-no-gpu none is fine, too few still isn't."""
    found = cards(facts)
    if wanted.cards is None or len(found) == wanted.cards or (wanted.allow_no_gpu and not found):
        return None
    if not found:
        return None  # said by `present`
    listed = ", ".join(card.text for card in found)
    missing = wanted.cards - len(found)
    return Refusal(
        subject="number of cards",
        what=f"{len(found)} NVIDIA card{'s' if len(found) != 1 else ''} on the PCI bus, {wanted.cards} expected",
        why=f"found {listed}; gpu.cards says {wanted.cards}",
        remedy=(
            f"a power cycle may bring {missing} missing back; otherwise reseat or replace"
            if missing > 0
            else f"set gpu.cards to {len(found)}"
        )
        + (", or correct gpu.cards" if missing > 0 else " if they all belong here"),
    )


def flavour(facts: Facts, wanted: Wanted) -> Verdict:
    """The module flavour and branch drive every card that is there."""
    for card in cards(facts):
        of = generation(card)
        if wanted.flavour not in of.flavours:
            return Refusal(
                subject="flavour",
                what=f"the {wanted.flavour} kernel module doesn't drive {card.text}",
                why=f"its id says {of.name}, which needs the {' or '.join(of.flavours)} module"
                + ("; the open one needs a GPU System Processor" if wanted.flavour == "open" else ""),
                remedy=f'set versions.flavour = "{of.flavours[0]}" for this host or its group'
                + (f", with a driver of branch {of.last_branch} or older" if of.last_branch else ""),
            )
        if of.last_branch and wanted.branch and wanted.branch > of.last_branch:
            return Refusal(
                subject="flavour",
                what=f"driver {wanted.driver} doesn't drive {card.text}",
                why=f"its id says {of.name}; branch {of.last_branch} is the last one for it",
                remedy=f"set versions.driver to a {of.last_branch} release for this host or its group",
            )
    return None


def bound(facts: Facts, wanted: Wanted) -> Verdict:
    """Cards that a virtual machine's driver holds on purpose."""
    held = [card.text for card in cards(facts) if card.driver == "vfio-pci"]
    if not held:
        return None
    return Note(
        subject="passthrough",
        text=f"vfio-pci holds {', '.join(held)}: set aside for virtual machines, so no container will see it; "
        "to use it here, take its id out of vfio-pci's options in /etc/modprobe.d",
    )


def addresses(facts: Facts, wanted: Wanted) -> Verdict:
    """Cards whose memory windows the firmware left without an address."""
    bare = [card.text for card in cards(facts) if card.bars and not any(end for _, end in card.bars)]
    if not bare:
        return None
    return Note(
        subject="PCI memory",
        text=f"{', '.join(bare)}: no memory window has an address, so the driver won't start it; enable 'Above 4G "
        "decoding' in the BIOS, or 64-bit MMIO of the virtual machine",
    )


CHECKS = (
    Check("cards", "is there an NVIDIA card?", (PciProbe(),), present),
    Check("number of cards", "are all cards there?", (PciProbe(),), number),
    Check("flavour", "does the kernel module drive these cards?", (PciProbe(),), flavour),
    Check("passthrough", "are cards set aside for virtual machines?", (PciProbe(),), bound),
    Check("PCI memory", "do the cards have memory windows?", (PciProbe(),), addresses),
)
