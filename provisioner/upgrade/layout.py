"""The cards of a host as they were before a roll touched it, to be found again afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.model.fact import Output, Probe
from provisioner.quoting import quote
from provisioner.upgrade.hoststep import Fence, Rows, Step, fields, scripted


@dataclass(frozen=True, slots=True)
class Card:
    """A card as `nvidia-smi -L` lists it. `mig`: profiles of its MIG instances, in their order ("1g.10gb")."""

    uuid: str
    model: str
    mig: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spec:
    """A CDI spec of NVIDIA's cards. `drivers`: versions of the libraries it names; `devices` its device names."""

    drivers: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Cards and CDI specs (by path) at one moment. `trouble`: why the cards couldn't be listed, "" when they were."""

    cards: tuple[Card, ...] = ()
    specs: Mapping[str, Spec] = field(default_factory=dict)
    trouble: str = ""

    @property
    def mig(self) -> Mapping[str, tuple[str, ...]]:
        """UUID → MIG profiles, of the cards that are divided."""
        return {card.uuid: card.mig for card in self.cards if card.mig}


@dataclass(frozen=True, slots=True)
class Visible:
    """What a plan can say of the layout without asking an nvidia command: `specs` the paths of NVIDIA's CDI specs,
    `instances` the number of MIG instances."""

    specs: tuple[str, ...] = ()
    instances: int = 0


@dataclass(frozen=True)
class VisibleProbe(Probe[Visible]):
    """CDI specs by their kind; MIG instances as the kernel's driver lists them in /proc/driver/nvidia/capabilities
    (NVIDIA's MIG user guide, "Device nodes and capabilities")."""

    @property
    def key(self) -> str:
        return "CDI specs and MIG instances"

    def script(self) -> str:
        return r"""
for f in /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json; do
    if grep -Eqs '"?kind"?: *"?nvidia\.com/(gpu|mig)' "$f"; then printf 'spec %s\n' "$f"; fi
done
for d in /proc/driver/nvidia/capabilities/gpu*/mig/gi*; do [ ! -d "$d" ] || echo instance; done
"""

    def parse(self, output: Output) -> Visible:
        lines = output.text.splitlines()
        return Visible(
            specs=tuple(line.removeprefix("spec ") for line in lines if line.startswith("spec ")),
            instances=lines.count("instance"),
        )


def remember(fence: Fence) -> Step[Layout]:
    """Keep on the host how its cards are laid out, once a roll: asked again it tells what was kept. To be done while
    the old driver still works; a host without one has an empty layout."""
    body = f"remember {quote(fence.run)}"
    return Step("remember the cards", scripted(fence, ("layout",), body), 120.0, lambda rows: layout(rows, "before"))


def layout(rows: Rows, when: str) -> Layout:
    """What the script told of "before" or "now"."""
    troubles = [f"nvidia-smi -L ended with {row[1]}: {row[2].strip()}" for row in fields(rows, "smi") if row[0] == when]
    return Layout(
        cards=tuple(Card(row[1], row[2], tuple(row[3].split())) for row in fields(rows, "card") if row[0] == when),
        specs={
            row[1]: Spec(tuple(row[2].split()), tuple(row[3].split())) for row in fields(rows, "spec") if row[0] == when
        },
        trouble="; ".join(troubles),
    )
