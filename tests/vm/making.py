"""How the product makes a GPU node of a bare machine: done once per session, kept as a state, looked at by a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.site import Site
from tests.vm import inventory, witness
from tests.vm.machine import Machine

RULE = "etc/modprobe.d/provision-nvidia.conf"
#: How many lines keep nouveau out, in the image that boots and in the one that was there before.
_IMAGES = f"""\
for image in /boot/initrd.img-$(uname -r) /boot/initrd.img-$(uname -r).before-provision; do
    [ -e $image ] || {{ echo missing; continue; }}
    rm -rf /tmp/image; unmkinitramfs $image /tmp/image || exit
    find /tmp/image -path '*/{RULE}' -exec cat {{}} + | grep -c '^blacklist nouveau$' || :
done; rm -rf /tmp/image"""


@dataclass(frozen=True)
class Look:
    """What a machine showed at one moment. ``modules``: of NVIDIA and nouveau, in the kernel."""

    boot: str
    drivers: list[str]
    modules: set[str]
    devices: str
    driver: str
    verdict: str


@dataclass(frozen=True)
class Making:
    """``first``: the host's part of an apply that may not reboot, with ``waiting`` seen after it; ``second`` of one
    that may. ``containerd`` and ``kubelet``: what they found in the boot between. ``images`` as _IMAGES counts."""

    state: Path
    bare: Look
    first: dict[str, Any]
    waiting: Look
    second: dict[str, Any]
    done: Look
    containerd: witness.Seen
    kubelet: witness.Seen
    log: str
    images: list[str]


def make(machine: Machine, site: Site, state: Path) -> Making:
    """Two runs on a bare machine with its cards plugged in; it is off at the end, and ``state`` written."""
    witness.install(machine)
    inventory.write(site, machine)
    bare = look(machine)
    first = site.json("apply", "--yes")
    assert first["exit_code"] == 0, first
    waiting = look(machine)
    second = site.json("apply", "--yes", "--reboot")
    assert second["exit_code"] == 0, second
    machine.wait()
    containerd, kubelet = (witness.seen(machine, unit) for unit in ("containerd", "kubelet"))
    log = machine.exec("journalctl -b -k -o cat", check=True).stdout
    images = machine.exec(_IMAGES, check=True).stdout.split()
    done = look(machine)
    witness.remove(machine)
    machine.save(state)
    name = machine.name
    return Making(
        state, bare, first["hosts"][name], waiting, second["hosts"][name], done, containerd, kubelet, log, images
    )


def look(machine: Machine) -> Look:
    """One command's worth of looking: an emulated processor takes its time for each."""
    script = """\
cat /proc/sys/kernel/random/boot_id
cd /sys/module; ls -d nvidia* nouveau 2>/dev/null | tr '\\n' ' '; echo
find /dev -maxdepth 1 -name 'nvidia*' | sort | tr '\\n' ' '; echo
dpkg-query -W -f '${Version}\\n' nvidia-open 2>/dev/null || echo
sed -n 's/^  "result": "\\(.*\\)",$/\\1/p' /var/lib/provision/selftest.json 2>/dev/null"""
    boot, modules, devices, driver, verdict, *_ = (machine.exec(script).stdout + "\n").split("\n")
    return Look(boot, witness.card_drivers(machine), set(modules.split()), devices.strip(), driver, verdict)
