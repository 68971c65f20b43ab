"""What machines start from, made once: the disks, and a machine that has booted and is quiet."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.engine import ensure_engine, say
from tests.lab.lab import lock
from tests.lab.paths import CACHE, fingerprint
from tests.vm import image, qemu
from tests.vm.cached import made
from tests.vm.engine import install_missing_tools, version
from tests.vm.machine import Machine


@dataclass(frozen=True)
class Images:
    """``bare``: the saved state of a machine without cards that has booted, with containerd running."""

    system: Path
    data: Path
    bare: Path

    def machine(self, name: str, *, secure_boot: bool | None = None) -> Machine:
        """A machine that is off."""
        return Machine(name, self.system, self.data, secure_boot=secure_boot)


@functools.cache
def images() -> Images:
    """Everything that a machine needs, built where it is missing; three to four minutes with nothing in the cache."""
    install_missing_tools()
    with lock():
        ensure_engine()
        system, data = image.system(), image.data()
        return Images(system, data, _bare(system, data))


def _bare(system: Path, data: Path) -> Path:
    """A state belongs to the disks, to QEMU's version and to its arguments."""
    recipe = [system.name, data.name, version(), Path(qemu.__file__).read_text(), Path(__file__).read_text()]
    target = CACHE / f"vm-bare-{fingerprint(recipe)}.qcow2"
    return made(target, lambda partial: _boot(Machine("vm-d", system, data), partial))


def _boot(machine: Machine, state: Path) -> None:
    say("booting a machine, to save it as it is then")
    try:
        machine.start(seconds=300)
        _quiet(machine)
        machine.save(state)
    finally:
        machine.remove()


def _quiet(machine: Machine) -> None:
    """Wait until what a boot leaves running has ended; half a minute at most, it's no error if it goes on."""
    machine.exec("systemctl is-active --wait containerd.service; udevadm settle; sync", check=True)
    for _ in range(15):
        running = machine.exec("systemctl list-jobs --no-legend; cut -d' ' -f4 /proc/loadavg").stdout.strip()
        if running.startswith("1/"):
            return
        time.sleep(2)
