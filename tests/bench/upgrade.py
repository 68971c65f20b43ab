"""What a roll costs a node: seconds cordoned, and on what they were spent.

    python -m tests.bench.upgrade [--prepare] [HOST…]

Rolls the hosts (gpu-k gpu-l gpu-m of the lab, as nodes of a test cluster of its own) to the driver version that they
don't have: first one of them alone, then all of them at once. Prints for every node the seconds it was cordoned, what
share went into packages, modules, restart, waiting for pods, verification and our own overhead (all else: recording,
looking at the lease, connecting), and how many requests to the API and scripts on the host that took.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from provisioner.model.event import Event
from provisioner.model.upgrade import Phase
from provisioner.upgrade.opening import open_roll
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.lab import Lab
from tests.lab.site import Site
from tests.roll.prepared import prepare, unsound
from tests.roll.scene import ACCOUNT, OPTIONS, RBAC, Scene

SHARES: Mapping[str, tuple[Phase, ...]] = {
    "packages": (Phase.INSTALL,),
    "modules": (Phase.UNLOAD, Phase.LOAD),
    "restart": (Phase.REBOOT,),
    "waiting": (Phase.WAIT_JOBS, Phase.EVICT, Phase.STOP_CLIENTS, Phase.START_CLIENTS),
    "verifying": (Phase.VERIFY_HOST, Phase.VERIFY_CLUSTER),
}


@dataclass
class Watch:
    """When each node was cordoned and uncordoned, and the seconds of its phases."""

    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    spent: dict[tuple[str, str], float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """See Monitor."""
        if event.kind == "phase-started":
            self.started[event.host] = event.at
            if event.stage == Phase.CORDON.value:
                self.began[event.host] = event.at
        elif event.kind in ("phase-done", "phase-failed"):
            key = event.host, event.stage
            self.spent[key] = self.spent.get(key, 0.0) + event.at - self.started[event.host]
            if event.stage == Phase.UNCORDON.value:
                self.ended[event.host] = event.at

    def line(self, host: str) -> str:
        """One node for people."""
        whole = self.ended[host] - self.began[host]
        shares = {name: sum(self.spent.get((host, p.value), 0.0) for p in phases) for name, phases in SHARES.items()}
        told = "  ".join(f"{name} {seconds:.1f} s" for name, seconds in shares.items() if seconds)
        return f"{host:8} cordoned {whole:5.1f} s:  {told}  own overhead {whole - sum(shares.values()):.1f} s"


def roll(scene: Scene, hosts: Iterable[str]) -> float:
    """Roll these at once; print; the seconds that it took."""
    names = list(hosts)
    scene.write(scene.target())
    watch = Watch()
    for name in names:
        scene.hosts[name].clear_sshd_log()
    options = replace(OPTIONS, max_unavailable=len(names), drain_timeout=300.0)
    with open_roll(scene.site.inventory, options, limit=",".join(names), monitor=watch) as roller:
        plan = roller.prepare(roller.plan())
        asked, began = len(scene.cluster.requests(user=ACCOUNT)), time.monotonic()
        report = roller.run(plan)
        took = time.monotonic() - began
    calls = len(scene.cluster.requests(user=ACCOUNT)) - asked
    for name, record in report.nodes.items():
        if record.phase is not Phase.DONE:
            raise SystemExit(f"{name} is {record.phase.value}: {record.reason}")
        print(watch.line(name))
    scripts = " ".join(f"{name} {scene.hosts[name].executions()}" for name in names)
    print(f"{len(names)} at once: {took:.1f} s, {calls} requests to the API; scripts since the last boot: {scripts}")
    return took


@contextmanager
def state_in(folder: Path) -> Iterator[None]:
    """The journals of the bench are its own."""
    before = os.environ.get("PROVISION_STATE_DIR")
    os.environ["PROVISION_STATE_DIR"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("PROVISION_STATE_DIR")
        if before is not None:
            os.environ["PROVISION_STATE_DIR"] = before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", nargs="*", default=["gpu-k", "gpu-l", "gpu-m"])
    parser.add_argument("--prepare", action="store_true", help="make hosts without a working driver anew, with one")
    given = parser.parse_args()
    chosen: list[str] = given.hosts
    lab = Lab()
    lab.up(*chosen)
    with tempfile.TemporaryDirectory() as text, state_in(Path(text) / "state"):
        bare = unsound([lab.host(name) for name in chosen])
        if bare and not given.prepare:
            named = ", ".join(host.name for host in bare)
            raise SystemExit(f"{named}: no working driver to upgrade from; begin with --prepare, which makes them anew")
        if bare:
            prepare(lab, bare, Path(text))
        cluster = Cluster.start()
        kubectl = Kubectl(cluster, Path(text))
        try:
            kubectl("apply", "-f", str(RBAC))
            scene = Scene(cluster, kubectl, Site(Path(text)), {name: lab.host(name) for name in chosen}, {})
            for name in chosen:
                scene.join(name)
            scene.furnish()
            one = roll(scene, chosen[:1])
            every = roll(scene, chosen)
            print(f"{len(chosen)} at once take {every / one:.2f} times as long as one")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
