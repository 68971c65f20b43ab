"""One roll's surroundings: hosts of the lab with a driver, as nodes of a cluster, and an inventory of them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioner.model.event import Event
from provisioner.model.upgrade import RollOptions, RollReport
from provisioner.upgrade.opening import Roller, open_roll
from provisioner.upgrade.record import ANNOTATION
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl
from tests.cluster.machine import Hosted
from tests.lab import LabHost
from tests.lab.inside import Inside
from tests.lab.site import Site

FIRST, SECOND, THIRD, BROKEN = "570.172.08", "580.95.05", "570.158.01", "580.99.99"
VERSIONS = (FIRST, SECOND, THIRD)
TOOLKIT = "1.18.0"
ACCOUNT = "system:serviceaccount:kube-system:provision-upgrade"
RBAC = Path(__file__).parents[2] / "templates" / "rbac" / "provision-upgrade.yaml"
OPTIONS = RollOptions(drain_timeout=60.0, reboot_timeout=90.0)

During = Mapping[tuple[str, str], Callable[[], None]]
"""(kind of event, phase) → what happens in the world at that moment, once."""

Locks = dict[tuple[str, str, frozenset[str]], str]
"""Driver, components of its repository, kinds of hosts → a lock file's text."""


def inventory(version: str, *, components: str = '"main"', cluster: str = "", more: str = "") -> str:
    """The site's variables, as inventories/lab-cluster.toml has them."""
    named = f'[cluster]\nkubeconfig = "{cluster}"\n' if cluster else ""
    return f"""{named}
[versions]
driver = "{version}"   # moved by --to
flavour = "open"
toolkit = "{TOOLKIT}"   # moved by --toolkit
[gpu]
cards = 2
[driver]
modules = "prebuilt"
[containerd]
cgroup_driver = "systemd"
[upgrade]
smoke_image = "provision/cuda-check"
[repositories.nvidia]
uri = "file:/srv/lab-repo/nvidia"
suite = "{{distribution}}"
components = [{components}]
key_file = "repo.asc"
key_fingerprint = "8B9701EDB92A647E5E0FFB006150B7BB7B610A27"
{more}"""


def opened(
    site: Site, options: RollOptions = OPTIONS, *, limit: str | None = None, during: During | None = None
) -> Roller:
    """A roll of a site by the library, over which things happen at given moments."""
    left = dict(during or {})

    def seen(event: Event) -> None:
        happening = left.pop((event.kind, event.stage), None)
        if happening is not None:
            happening()

    return open_roll(site.inventory, options, limit=limit, monitor=seen)


def loaded(host: Inside) -> str:
    """Version of the driver in the host's kernel."""
    return host.exec("cat /sys/module/nvidia/version").stdout.strip()


def installed(host: Inside) -> str:
    """Version of the driver's top package where it is whole, held or not."""
    said = host.exec("dpkg-query -W -f '${db:Status-Status} ${Version}' nvidia-open").stdout.split()
    return said[1].removesuffix("-1") if said[:1] == ["installed"] else ""


def toolkit(host: Inside) -> str:
    """Version of the toolkit's package."""
    said = host.exec("dpkg-query -W -f '${Version}' nvidia-container-toolkit").stdout
    return said.removesuffix("-1")


@dataclass
class Scene:
    """What a test rolls over. `locks`: what a lock depends on → its file's text, made once."""

    cluster: Cluster
    kubectl: Kubectl
    site: Site
    hosts: dict[str, LabHost]
    locks: Locks
    marks: dict[str, str] = field(default_factory=dict)

    def write(self, target: str, *, plain: bool = False, components: str = '"main"', more: str = "") -> None:
        """The inventory that wants `target`, and its lock."""
        where = "" if plain else str(self.kubectl.config(ACCOUNT))
        text = inventory(target, components=components, cluster=where, more=more)
        self.site.write(*self.hosts.values(), text=text)
        wanted = target, components, frozenset(host.spec.base for host in self.hosts.values())
        if wanted not in self.locks:
            done = self.site.run("lock")
            assert done.returncode == 0, done.stdout + done.stderr
            self.locks[wanted] = self.site.inventory.with_suffix(".lock").read_text()
        self.site.inventory.with_suffix(".lock").write_text(self.locks[wanted])

    def target(self) -> str:
        """A version that none of the hosts has: what the next roll brings."""
        there = {loaded(host) for host in self.hosts.values()}
        return next(version for version in VERSIONS if version not in there)

    def join(self, name: str, pause: float = 1.0) -> None:
        """Make the host a node."""
        self.cluster.add_node(name, machine=Hosted(self.hosts[name]), pause=pause)

    def furnish(self) -> None:
        """The device plugin on all nodes, so that cards are there for pods."""
        self.cluster.add_device_plugin()
        self.cluster.wait(
            lambda: all(self.cards(name) == "2" for name in self.hosts), "every node offers two cards", seconds=60
        )

    def cards(self, name: str) -> str:
        """Allocatable cards of a node."""
        return str((self.cluster.node(name)["status"].get("allocatable") or {}).get("nvidia.com/gpu", "0"))

    # --- rolling -----------------------------------------------------------------------------------------------

    def open(self, options: RollOptions = OPTIONS, *, limit: str | None = None, during: During | None = None) -> Roller:
        """A roll of this site, see `opened`."""
        return opened(self.site, options, limit=limit, during=during)

    def roll(
        self, options: RollOptions = OPTIONS, *, limit: str | None = None, during: During | None = None
    ) -> RollReport:
        """Plan, prepare, run."""
        with self.open(options, limit=limit, during=during) as roller:
            plan = roller.prepare(roller.plan())
            assert plan.nodes, (plan.left_out, plan.refused)
            return roller.run(plan)

    def resume(self, options: RollOptions = OPTIONS) -> RollReport:
        """Go on."""
        with self.open(options) as roller:
            return roller.resume()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The command line, for a test that kills or stops it; nothing of its output is kept but errors."""
        with (self.site.folder / "stderr").open("ab") as log:
            return subprocess.Popen(
                self.site.command("upgrade-driver", *arguments, "--yes"),
                env={**self.site.env, **self.marks},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    # --- looking -----------------------------------------------------------------------------------------------

    def record(self, name: str) -> dict[str, Any]:
        """The node's record as it lies in the cluster; {} for none."""
        text = (self.cluster.node(name)["metadata"].get("annotations") or {}).get(ANNOTATION)
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def cordoned(self, name: str) -> bool:
        return bool(self.cluster.node(name)["spec"].get("unschedulable"))

    def taints(self, name: str) -> list[str]:
        return [taint["key"] for taint in self.cluster.node(name)["spec"].get("taints") or ()]

    def installations(self, name: str) -> list[str]:
        """Versions of the driver's top package that dpkg has brought into effect, oldest first."""
        said = self.hosts[name].exec("cat /var/log/dpkg.log").stdout
        return [
            line.split()[5].removesuffix("-1") for line in said.splitlines() if " status installed nvidia-open:" in line
        ]

    def check_clean(self, name: str, version: str) -> None:
        """The node works with `version` and nothing of the roll is left on it."""
        host = self.hosts[name]
        assert loaded(host) == version
        assert installed(host) == version
        assert host.exec("dpkg --audit").stdout == ""
        assert not self.cordoned(name)
        assert "provision.dev/driver-upgrade" not in self.taints(name)
        self.cluster.wait(lambda: self.cards(name) == "2", f"{name} offers its cards", seconds=20)

    def check_deletions(self) -> None:
        """No pod was deleted but the roll's own: all others went through the Eviction API."""
        told = self.cluster.requests(user=ACCOUNT, verb="delete") + self.cluster.requests(
            user=ACCOUNT, verb="deletecollection"
        )
        odd = [each for each in told if each.resource.startswith("pods") and "provision-smoke" not in each.name]
        assert odd == []


def until(true: Callable[[], Any], what: str, seconds: float = 90.0) -> None:
    """Wait for something that a roll does meanwhile; its shortest phases last some milliseconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so within {seconds:.0f} s: {what}"
        time.sleep(0.001)
