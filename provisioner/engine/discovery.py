"""What is on hosts that no inventory holds yet: for `provision init`."""

from __future__ import annotations

import time

from provisioner.config.annotate import FoundHost
from provisioner.engine.observe import observe
from provisioner.engine.pool import each
from provisioner.engine.secrets import Secrets
from provisioner.errors import TransportError
from provisioner.facts.driver import ModulesOnDiskProbe
from provisioner.facts.gpu import DriverProcProbe, PciProbe
from provisioner.facts.host import SystemProbe
from provisioner.facts.packages import PackagesProbe
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.model.event import Event, Monitor
from provisioner.model.fact import Facts, Known, Probe, T
from provisioner.model.inventory import Host, Inventory, Secret
from provisioner.transport.connect import connector

PROBES = (SystemProbe(), PciProbe(), DriverProcProbe(), ModulesOnDiskProbe(), PackagesProbe(), ContainerdVersionProbe())


def discover(inventory: Inventory, *, forks: int, monitor: Monitor) -> list[FoundHost]:
    """Read each host of a passing inventory once. A host that can't be read has an `error`."""
    secrets: tuple[Secret, ...] = inventory.secrets

    def warn(host: str, text: str) -> None:
        monitor(Event("warning", time.time(), host, text=text))

    connect = connector(inventory, warn=warn)
    found: dict[str, FoundHost] = {}

    def read(host: Host) -> None:
        reached = host.connection
        bare = FoundHost(host.name, reached.address, reached.user, reached.port)
        executor = connect(host)
        monitor(Event("host-observing", time.time(), host.name))
        try:
            found[host.name] = describe(bare, observe(executor, PROBES, Secrets(secrets)))
            monitor(Event("host-observed", time.time(), host.name))
        except TransportError as error:
            found[host.name] = FoundHost(bare.name, bare.address, bare.user, bare.port, error=error.what)
            monitor(Event("host-failed", time.time(), host.name, text=str(error)))
        finally:
            executor.close()

    each(inventory.hosts, read, forks=forks, go_on=lambda: True)
    return [found[host.name] for host in inventory.hosts]


def describe(host: FoundHost, facts: Facts) -> FoundHost:
    """The host with what was read. A loaded driver counts before the one on disk; what is unknown stays empty."""
    system, loaded, disk = (
        _value(facts, SystemProbe()),
        _value(facts, DriverProcProbe()),
        _value(facts, ModulesOnDiskProbe()),
    )
    cards, packages = _value(facts, PciProbe()), _value(facts, PackagesProbe())
    module = disk.modules.get("nvidia") if disk else None
    containerd = (_value(facts, ContainerdVersionProbe()) or "").split()
    toolkit = packages.version("nvidia-container-toolkit") if packages else None
    return FoundHost(
        name=host.name,
        address=host.address,
        user=host.user,
        port=host.port,
        distribution=system.distribution if system else "",
        driver=loaded.version if loaded else module.version if module else "",
        flavour=loaded.flavour if loaded else module.flavour if module else "",
        toolkit=(toolkit or "").rpartition("-")[0] or toolkit or "",
        containerd=containerd[2] if len(containerd) > 2 else "",
        cards=None if cards is None else sum(card.is_card for card in cards),
    )


def _value(facts: Facts, probe: Probe[T]) -> T | None:
    fact = facts.fact(probe)
    return fact.value if isinstance(fact, Known) else None
