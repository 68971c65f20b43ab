"""Who holds the cards of a host, so that a person or a drain can end it: processes, their pods, and modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.facts.workload import DRIVER_DAEMONS
from provisioner.upgrade.clients import CLIENTS
from provisioner.upgrade.hoststep import Fence, Rows, Step, fields, scripted

UNLOAD_ORDER = ("gdrdrv", "nvidia_fs", "nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
"""Every module before those it uses. nvidia_drm uses nvidia_modeset; on hosts it must go first, though the driver
containers' lists don't name it (they build without it)."""

POD = re.compile(r"(?:^|[/-])pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|:|$)")
"""A pod's part of a cgroup path: `/kubepods/burstable/podUID` (cgroupfs), `kubepods-burstable-podUID.slice` with
underscores (systemd); a static pod's uid is 32 hex digits without any."""
CONTAINER = re.compile(r"(?:^|[/:-])(?P<id>[0-9a-f]{64})(?:\.scope)?$")
"""A container at the end of a path: `/ID` (cgroupfs), `/cri-containerd-ID.scope`, `docker-ID.scope`, or
`SLICE:cri-containerd:ID`, which runc writes when only one of kubelet and containerd uses systemd."""
UNIT = re.compile(r"/(?P<unit>[^/]+\.(?:service|scope))(?=/|$)")


@dataclass(frozen=True, slots=True)
class Place:
    """What a cgroup path says: `pod` the uid with hyphens, `container` the id, `unit` of systemd; "" for none."""

    pod: str = ""
    container: str = ""
    unit: str = ""


def place(path: str) -> Place:
    """Where a process runs, from its path in /proc/PID/cgroup (v1 or v2; systemd or cgroupfs as driver)."""
    pod = POD.search(path)
    container = CONTAINER.search(path)
    units = [found["unit"] for found in UNIT.finditer(path)]
    plain = [unit for unit in units if CONTAINER.search(f"/{unit}") is None]
    return Place(
        pod=pod["uid"].replace("_", "-") if pod else "",
        container=container["id"] if container else "",
        unit=plain[-1] if plain and not pod and not container else "",
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds device files of the cards. `name` is its comm (15 characters), `command` the program and
    its first words (options left out: they may be secrets), `devices` what it holds."""

    pid: int
    name: str
    command: str = ""
    devices: tuple[str, ...] = ()
    place: Place = Place()

    @property
    def daemon(self) -> bool:
        """Is it a daemon of the driver's own stack, which is stopped and started with it?"""
        return self.name in DRIVER_DAEMONS or self.place.unit in CLIENTS

    def text(self, pods: Mapping[str, str] | None = None) -> str:
        """For people: "4711 python3 of pod default/train". `pods`: uid → "namespace/name"."""
        named = f"{self.pid} {self.command or self.name}"
        if self.place.pod:
            return f"{named} of pod {(pods or {}).get(self.place.pod, self.place.pod)}"
        if self.place.container:
            return f"{named} of container {self.place.container[:12]}"
        return f"{named} of {self.place.unit}" if self.place.unit else named


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A loaded module: `refcnt` as the kernel counts its users, None where it doesn't say; `holders` the modules
    among them."""

    name: str
    refcnt: int | None
    version: str = ""
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Held:
    """Processes and modules that hold the cards of a host; empty when nothing does."""

    processes: tuple[Holder, ...] = ()
    modules: Mapping[str, LoadedModule] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        """Version of the loaded driver, "" when none is loaded."""
        return self.modules["nvidia"].version if "nvidia" in self.modules else ""

    @property
    def pods(self) -> frozenset[str]:
        """Uids of the pods whose processes hold a card, asked for or not."""
        return frozenset(holder.place.pod for holder in self.processes if holder.place.pod)

    @property
    def workload(self) -> tuple[Holder, ...]:
        """Processes that aren't the driver's own daemons: on a host without a cluster, what to wait for."""
        return tuple(holder for holder in self.processes if not holder.daemon)

    def text(self, pods: Mapping[str, str] | None = None) -> str:
        """For people: "held by 4711 python3 train.py of pod default/train and by module foreign_rdma"; what the
        kernel counts and nobody shows is said too. "" when nothing is held."""
        parts = [f"by {holder.text(pods)}" for holder in self.processes]
        foreign = sorted(
            {user for module in self.modules.values() for user in module.holders if user not in UNLOAD_ORDER}
        )
        parts += [f"by module {name}, which isn't NVIDIA's" for name in foreign]
        if not parts:
            parts = [
                f"by {module.refcnt - len(module.holders)} users of module {module.name} that no process shows"
                for module in self.modules.values()
                if module.refcnt is not None and module.refcnt > len(module.holders)
            ]
        return f"held {' and '.join(parts)}" if parts else ""


def look(fence: Fence) -> Step[Held]:
    """Who holds the cards now."""
    return Step("see who holds the cards", scripted(fence, ("holders",), "tell_holders"), 60.0, held)


def held(rows: Rows) -> Held:
    """What the script told."""
    groups = {row[0]: row[1] for row in fields(rows, "cgroup")}
    return Held(
        processes=tuple(
            Holder(int(pid), name, command, tuple(devices.split()), place(groups.get(pid, "")))
            for pid, name, command, devices in fields(rows, "holder")
        ),
        modules={
            name: LoadedModule(name, int(count) if count.isdigit() else None, version, tuple(users.split()))
            for name, count, version, users in fields(rows, "module")
        },
    )
