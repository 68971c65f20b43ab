"""What machines start from, made once: the disks, and a machine that has booted and is quiet."""

from __future__ import annotations

import functools
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.engine import LabError, ensure_engine, say
from tests.lab.lab import lock
from tests.lab.paths import CACHE, MACHINES, fingerprint
from tests.vm import image
from tests.vm.cached import made
from tests.vm.engine import install_missing_tools, version
from tests.vm.machine import ACCESS_OFFSET, Machine, sweep
from tests.vm.qemu import Hardware


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
    sweep()
    with lock():
        ensure_engine()
        system, data = image.system(), image.data()
        return Images(system, data, _bare(system, data))


def _bare(system: Path, data: Path) -> Path:
    """A state belongs to the disks, to QEMU's version and to its arguments."""
    command = Hardware("", Path(), data, {}).command()
    recipe = [system.name, data.name, version(), *command]
    target = CACHE / f"vm-bare-{fingerprint(recipe)}.qcow2"
    return made(target, lambda partial: _boot(Machine(_free(), system, data), partial))


def _free() -> str:
    """Name of a machine whose ports nobody has: the state is any machine's."""
    for name, port in reversed(MACHINES.items()):
        for wanted in (port, port + ACCESS_OFFSET):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", wanted)) == 0:
                    break
        else:
            return name
    raise LabError(f"all of {', '.join(MACHINES)} are running; end one, a saved state is to be made")


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
