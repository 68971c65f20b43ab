"""Hosts as a roll may find them: with a whole driver that works."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab import Lab, LabHost
from tests.lab.site import Site
from tests.roll.scene import FIRST, TOOLKIT, VERSIONS, installed, inventory, loaded, toolkit


def sound(host: LabHost) -> bool:
    """Is the host as a roll may find it: one of the drivers, whole, and in the kernel?"""
    if not host.running():
        return False
    host.card.repair()
    version = loaded(host)
    checked = host.exec("dpkg --audit; systemctl is-active nvidia-persistenced; nvidia-smi -L | wc -l")
    packages = installed(host) == version and toolkit(host) == TOOLKIT
    return version in VERSIONS and packages and checked.stdout.split() == ["active", "2"]


def unsound(hosts: list[LabHost]) -> list[LabHost]:
    """Those that a roll can't begin with."""
    with ThreadPoolExecutor(4) as pool:
        return [host for host, good in zip(hosts, pool.map(sound, hosts), strict=True) if not good]


def prepare(lab: Lab, hosts: list[LabHost], folder: Path) -> None:
    """Make these anew and bring them their first driver. `folder` is for the site."""
    lab.reset(*(host.name for host in hosts))
    site = Site(folder)
    site.write(*hosts, text=inventory(FIRST))
    for verb in (("lock",), ("apply", "--yes", "--disruptive")):
        done = site.run(*verb)
        assert done.returncode == 0, done.stdout + done.stderr
