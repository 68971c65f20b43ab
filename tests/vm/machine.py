"""One machine with a kernel of its own: started, broken and looked into from outside."""

from __future__ import annotations

import fcntl
import shlex
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.lab.engine import LabError
from tests.lab.inside import Inside
from tests.lab.paths import MACHINES
from tests.vm.access import GUEST_PORT, Access
from tests.vm.qemu import FIRST_SLOT, Hardware, Qemu, copy, overlay
from tests.vm.secureboot import board

#: The tests' own way in is this far above the port of the product's.
ACCESS_OFFSET = 1000
PREFIX = "provision-vm-"


def held_by_us(folder: Path) -> IO[str]:
    """The lock on a machine's folder, which lasts as long as its process; ``BlockingIOError`` where another has it."""
    file = (folder / "held").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    return file


def sweep() -> None:
    """Delete the folders of machines whose process was killed; one that was made just now may not be locked yet."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(BlockingIOError, PermissionError, FileNotFoundError):
            if time.time() - folder.stat().st_mtime > 60:
                with held_by_us(folder):
                    shutil.rmtree(folder, ignore_errors=True)


class Machine(Inside):
    """A machine that is off until ``start`` or ``load``. Commands through ``exec`` don't touch the product's sshd.

    ``system`` and ``data`` are the disks of ``tests.vm.image``. Its own disk lies in a folder that ``remove`` deletes.
    ``secure_boot``: None is a machine with a BIOS; True and False one with UEFI, which can only be booted, not saved
    and loaded.
    """

    def __init__(self, name: str, system: Path, data: Path, *, secure_boot: bool | None = None) -> None:
        self.name = name
        self.port = MACHINES[name]
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name.removeprefix('vm-')}-"))
        self._held = held_by_us(folder)
        ports = {self.port: 22, self.port + ACCESS_OFFSET: GUEST_PORT}
        self.hardware = Hardware(name, folder, data, ports)
        if secure_boot is not None:
            self.hardware.board = board(folder, enforced=secure_boot)
        self._system = system
        self._qemu: Qemu | None = None
        self._access = Access(folder, self.port + ACCESS_OFFSET, self.port)
        #: Set to False: a reboot of the guest ends with the machine off, until ``start``.
        self._comes_back = True

    # --- life -------------------------------------------------------------------------------------
    def running(self) -> bool:
        """Whether it is on; a machine in the middle of a reboot is."""
        return self._qemu is not None and self._qemu.running()

    def start(self, *, seconds: float = 300) -> None:
        """Switch it on and wait for its boot. The first time, its disk is an overlay on the system's."""
        self.power_on()
        self.wait(seconds)

    def power_on(self) -> None:
        """Switch it on and don't wait."""
        if self.running():
            raise LabError(f"{self.name} is on already")
        if not self.hardware.disk.exists():
            overlay(self._system, self.hardware.disk)
        self._launch(saved=False)

    def stop(self) -> None:
        """Cut the power; the disk stays as the guest flushed it."""
        self._access.close()
        if self._qemu is not None:
            self._qemu.cut()

    def reboot(self) -> None:
        """Reboot as ``systemctl reboot`` does, and wait for the boot where the machine comes back."""
        before = self.boots
        self.exec("systemctl reboot")
        end = time.monotonic() + 90
        while self.running() and self.boots == before:
            if time.monotonic() > end:
                raise LabError(f"{self.name} did not go down within 90 s:\n{self.console()}")
            time.sleep(0.1)
        self._access.close()
        if self._comes_back:
            self.wait()

    def remove(self) -> None:
        """Switch it off and delete what it wrote."""
        self.stop()
        shutil.rmtree(self.hardware.folder, ignore_errors=True)
        self._held.close()

    def wait(self, seconds: float = 300) -> None:
        """Wait until systemd has finished booting and the product's sshd listens."""
        end = time.monotonic() + seconds
        state = ""
        while time.monotonic() < end:
            asked = self.exec("systemctl is-system-running; systemctl is-active ssh.service", timeout=60)
            state = asked.stdout.strip().replace("\n", " ")
            if state.split(" ")[0] in ("running", "degraded") and state.endswith(" active"):
                return
            time.sleep(0.3)
        raise LabError(f"{self.name} did not boot within {seconds:.0f} s: {state!r}\n{self.console()}")

    def save(self, state: Path) -> None:
        """Write the running machine, memory and disk, to a file that ``load`` starts from; it is off afterwards.

        Cards are taken off the bus before, by the guest's leave.
        """
        for card in sorted(self.hardware.cards):
            self.unplug(card)
        self._access.close()
        qemu = self._on()
        qemu.save()
        qemu.cut()
        copy(self.hardware.disk, state)

    def load(self, state: Path, *, cards: int = 0) -> None:
        """Go on from a saved state, its disk included, with this number of cards plugged in.

        The boot id is that of the saved machine, the clock is set to now.
        """
        if self.running():
            self.stop()
        copy(state, self.hardware.disk)
        self.hardware.cards.clear()
        self._launch(saved=True)
        name = shlex.quote(self.name)
        self._connect()  # takes its time, which the clock would be behind by
        self.exec(f"date -s @{time.time():.3f} && hostname {name} && echo {name} >/etc/hostname", check=True)
        for card in range(cards):
            self.plug(card)

    @property
    def comes_back(self) -> bool:
        """Whether a reboot of the guest ends with the machine on again; settable at any time."""
        return self._comes_back

    @comes_back.setter
    def comes_back(self, value: bool) -> None:
        self._comes_back = value
        if self._qemu is not None:
            self._qemu.comes_back = value

    @property
    def boots(self) -> int:
        """How often it was started since it was switched on, the first time included."""
        return self._qemu.boots if self._qemu is not None else 0

    # --- cards ------------------------------------------------------------------------------------
    @property
    def cards(self) -> int:
        """Number of cards on the PCI bus."""
        return len(self.hardware.cards)

    def plug(self, index: int) -> None:
        """Put a card on the bus; on a running machine, wait until its kernel has seen it and udev is through."""
        self.hardware.cards.add(index)
        if not self.running():
            return
        self._on().plug(index)
        there = f"/sys/bus/pci/devices/{self.address(index)}"
        script = f"for _ in $(seq 100); do [ -e {there} ] && exec udevadm settle; sleep 0.1; done; exit 1"
        if self.exec(script).returncode != 0:
            raise LabError(f"{self.name}: the guest did not see card {index} within 10 s:\n{self.console()}")

    def unplug(self, index: int) -> None:
        """Take a card off the bus; on a running machine its driver is told, and must let go of it."""
        if self.running():
            self._on().unplug(index)
        self.hardware.cards.discard(index)

    def lose(self, index: int) -> None:
        """A card falls off the bus without a word: what is read from it is all ones, until a reboot."""
        self._on().lose(index)

    def address(self, index: int) -> str:
        """A card's PCI address in the guest."""
        return f"0000:00:{FIRST_SLOT + index:02x}.0"

    # --- looking and reaching inside -----------------------------------------------------------------
    def exec(self, command: str, *, check: bool = False, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root in the machine; a machine that boots is waited for."""
        done = self._run(command, None, timeout)
        if check and done.returncode != 0:
            raise LabError(f"{self.name}: {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def put(self, path: str, content: bytes | str, mode: int = 0o644) -> None:
        """Write a file, making its folder where it is missing."""
        data = content.encode() if isinstance(content, str) else content
        folder, target = shlex.quote(str(Path(path).parent)), shlex.quote(path)
        done = self._run(f"mkdir -p {folder} && cat >{target} && chmod {mode:o} {target}", data, 60)
        if done.returncode != 0:
            raise LabError(f"{self.name}: {path} could not be written: {done.stderr}")

    def get(self, path: str) -> bytes:
        """Content of a file; ``FileNotFoundError`` where there is none."""
        self._connect()
        done = self._access.run(f"cat {shlex.quote(path)}")
        if done.returncode != 0:
            raise FileNotFoundError(f"{self.name}:{path}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def boot_id(self) -> str:
        """The kernel's id of this boot; the one saved, after ``load``."""
        return self.exec("cat /proc/sys/kernel/random/boot_id", check=True).stdout.strip()

    def console(self) -> str:
        """The end of what the machine wrote to its serial console."""
        console = self.hardware.console
        return console.read_text(errors="replace")[-3000:] if console.exists() else ""

    def resident(self) -> int:
        """Bytes of this machine's memory that QEMU holds."""
        return self._on().resident()

    # --- inside ---------------------------------------------------------------------------------------
    def _launch(self, *, saved: bool) -> None:
        self._access.close()
        self._qemu = Qemu(self.hardware, saved=saved)
        self._qemu.comes_back = self._comes_back

    def _on(self) -> Qemu:
        if self._qemu is None or not self._qemu.running():
            raise LabError(f"{self.name} is off")
        return self._qemu

    def _connect(self) -> None:
        try:
            self._access.connect(300, self.running)
        except LabError as error:
            raise LabError(f"{self.name}: {error}\n{self.console()}") from None

    def _run(self, command: str, data: bytes | None, timeout: float) -> subprocess.CompletedProcess[str]:
        self._connect()
        done = self._access.run(command, data=data, timeout=timeout)
        out, err = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)
