"""Rolls over one machine without a cluster: its inventory with a lock, and programs that hold a card there."""

from __future__ import annotations

import json
from typing import Any

from tests.lab.site import REPO, Site
from tests.roll.scene import SECOND, installed, inventory
from tests.vm.machine import Machine

#: Holds a card as work does, by a descriptor that /proc shows.
HOLDER = """\
import os, time
os.open("/dev/nvidia0", os.O_RDWR)
open("/run/holding", "w").close()
time.sleep(86400)
"""
#: Holds a card by a descriptor that is on its way between two sockets: the kernel counts it, no process shows it.
HIDDEN_HOLDER = """\
import os, socket, time
here, there = socket.socketpair()
card = os.open("/dev/nvidia0", os.O_RDWR)
socket.send_fds(here, [b"card"], [card])
os.close(card)
open("/run/holding", "w").close()
time.sleep(86400)
"""

_LOCK = REPO / "inventories" / "vm.lock"


def want(site: Site, machine: Machine, version: str, *, components: str = '"main"', modules: str = "prebuilt") -> None:
    """The inventory that wants this driver, and its lock: that of the machines' inventory, as all versions in their
    repository have the same packages."""
    text = inventory(version, components=components)
    site.write(machine, text=text.replace('modules = "prebuilt"', f'modules = "{modules}"'))
    site.inventory.with_suffix(".lock").write_text(_LOCK.read_text().replace(SECOND, version))


def hold(machine: Machine, program: str) -> int:
    """Start a program that holds the first card, as unit ``training.service``; its process id."""
    machine.put("/opt/train.py", program)
    start = "systemd-run --quiet --collect --unit training.service python3 /opt/train.py"
    holding = "for _ in $(seq 200); do [ ! -e /run/holding ] || exit 0; sleep 0.1; done; exit 1"
    machine.exec(
        f"rm -f /run/holding; modprobe nvidia && nvidia-modprobe -c 0 && {start} || exit 1; {holding}", check=True
    )
    return int(machine.exec("systemctl show -p MainPID --value training.service", check=True).stdout)


def let_go(machine: Machine) -> None:
    """End that program."""
    machine.exec("systemctl stop training.service", check=True)


def running_versions(machine: Machine) -> dict[str, str]:
    """Version of each of the driver's modules in the kernel."""
    script = "cd /sys/module && grep -H . nvidia/version nvidia_*/version"
    rows = (line.split("/version:") for line in machine.exec(script).stdout.splitlines())
    return dict(row for row in rows if len(row) == 2)


def check_driver(machine: Machine, version: str) -> None:
    """The driver of this version is in the kernel, complete, its packages are whole, its daemon runs and its device
    files are there."""
    versions = running_versions(machine)
    assert versions == dict.fromkeys(("nvidia", "nvidia_modeset", "nvidia_uvm"), version)
    assert machine.exec("dpkg --audit").stdout == ""
    assert installed(machine) == version
    assert machine.exec("systemctl is-active nvidia-persistenced.service").stdout.strip() == "active"
    major = machine.exec("sed -n 's/ nvidia-uvm$//p' /proc/devices").stdout.strip()
    numbers = machine.exec("stat -c '%n %Hr' /dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm").stdout
    assert numbers.split("\n")[:-1] == [
        *(f"/dev/{name} 195" for name in ("nvidia0", "nvidia1", "nvidiactl")),
        f"/dev/nvidia-uvm {major}",
    ]


def check_works(machine: Machine, site: Site, version: str) -> None:
    """`check_driver`, and it was put to the test in this boot; the host is what the inventory wants."""
    check_driver(machine, version)
    verdict: dict[str, Any] = json.loads(machine.get("/var/lib/provision/selftest.json"))
    assert (verdict["result"], len(verdict["cards"])) == ("pass", 2), verdict
    assert verdict["boot_id"] == machine.boot_id()
    drift = site.run("drift")
    assert drift.returncode == 0, drift.stdout + drift.stderr
