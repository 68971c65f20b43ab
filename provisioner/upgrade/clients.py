"""Units of a host that use the cards: stopped for the upgrade, remembered on the host, and started again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.quoting import words
from provisioner.upgrade.hoststep import Fence, Rows, Step, fields, scripted

CLIENTS = (
    "nvidia-cdi-refresh.path",
    "nvidia-device-plugin.service",
    "nvidia-gpu-exporter.service",
    "nvidia_gpu_exporter.service",
    "prometheus-nvidia-exporter.service",
    "nvidia-dcgm-exporter.service",
    "dcgm-exporter.service",
    "nvidia-dcgm.service",
    "dcgm.service",
    "nvsm.service",
    "nvidia-imex.service",
    "nvidia-topologyd.service",
    "nvidia-gridd.service",
    "nvidia-mig-manager.service",
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
)
"""Units in the order in which they are stopped: each before what it talks to. nvidia-cdi-refresh.path runs
nvidia-ctk whenever modules.dep changes, which an installation does, and nvidia-ctk as root loads the module; the MIG
manager's own unit is ordered after fabric manager and persistence daemon."""

DRIVER_DAEMONS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-mig-manager.service")
"""What belongs to a driver that works, in the order of starting: without the fabric manager CUDA answers 802 on a
machine with NVSwitches, so these run before the host is verified."""

REMEMBERED = "/var/lib/provision/upgrade-clients"
"""File on a host with the units that a roll has stopped and not yet started again."""


@dataclass(frozen=True, slots=True)
class Clients:
    """What became of the units. `done`: stopped, or started; `failed`: (unit, what it said); `gone`: units that were
    stopped and don't exist any more, or that have nothing to do here."""

    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """For people: "nvidia-dcgm.service did not obey: …", "" when all went well."""
        return "; ".join(f"{unit} did not obey: {said or 'no word'}" for unit, said in self.failed)


def stop_clients(fence: Fence, more: Sequence[str] = ()) -> Step[Clients]:
    """Stop what uses the cards. `more`: units of the site, stopped first. What ran is kept in REMEMBERED before
    anything is stopped; the answer names all that is remembered and doesn't run now."""
    body = f"stop_clients {words((*more, *CLIENTS))}"
    return Step("stop what uses the cards", scripted(fence, ("clients",), body), 120.0 * 5, answer)


def start_clients(fence: Fence, more: Sequence[str] = ()) -> Step[Clients]:
    """Start again what was stopped, and only that. When all of it runs nothing is remembered any more."""
    units = (*DRIVER_DAEMONS, *(unit for unit in reversed((*more, *CLIENTS)) if unit not in DRIVER_DAEMONS))
    body = f"start_clients all {words(units)}"
    return Step("start what used the cards", scripted(fence, ("clients",), body), 130.0 * 5, answer)


def start_daemons() -> str:
    """The line of a script that starts the driver's own daemons among what was stopped."""
    return f"start_clients some {words(DRIVER_DAEMONS)}"


def answer(rows: Rows) -> Clients:
    """What the script told of each unit."""
    told = fields(rows, "client")
    return Clients(
        done=tuple(unit for unit, how, _ in told if how in ("stopped", "started")),
        failed=tuple((unit, said.strip()) for unit, how, said in told if how == "failed"),
        gone=tuple(unit for unit, how, _ in told if how in ("gone", "skipped")),
    )
