"""One machine's QEMU: started, and started again when the guest reboots."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.engine import LabError, run
from tests.vm.engine import CARD_DEVICE, EMULATOR
from tests.vm.proxy import Card
from tests.vm.qmp import Qmp

#: Megabytes. The memory is shared, as the cards' device wants it; a loaded state has all of it resident.
MEMORY = 768
#: Where the first card is on the PCI bus; the next ones follow.
FIRST_SLOT = 0x10
SNAPSHOT = "saved"
BIOS = ("-M", "pc,memory-backend=mem")


def overlay(backing: Path, target: Path) -> None:
    """A disk that holds what differs from ``backing``, which stays as it is."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(backing), str(target)])


@dataclass
class Hardware:
    """What a machine is made of; ``folder`` is its own and holds disk.qcow2, sockets and the console's log."""

    name: str
    folder: Path
    data: Path
    #: Port on 127.0.0.1 → port in the guest.
    ports: dict[int, int]
    #: Machine type and firmware.
    board: Sequence[str] = BIOS
    #: Indices of the cards on the bus.
    cards: set[int] = field(default_factory=set)

    @property
    def disk(self) -> Path:
        return self.folder / "disk.qcow2"

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    @property
    def socket(self) -> Path:
        return self.folder / "qmp.sock"

    def command(self) -> list[str]:
        """QEMU's arguments, without cards. One processor, as the tests run two machines at once. A plain one, as what
        newer ones copy and compare with is slower when it is emulated (a command took 13 to 18 ms instead of 22)."""
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{outer}-:{inner}" for outer, inner in self.ports.items())
        memory = f"memory-backend-memfd,id=mem,size={MEMORY}M,share=on"
        return [
            *("setpriv", "--pdeathsig", "KILL", EMULATOR, "-name", self.name, *self.board),
            *("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64", "-smp", "1", "-m", str(MEMORY)),
            *("-object", memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-netdev", f"user,id=net,restrict=on{forwards}", "-device", "virtio-net-pci,netdev=net,romfile="),
            *("-drive", f"if=none,id=root,file={self.disk},format=qcow2,cache=unsafe"),
            *("-device", "virtio-blk-pci,drive=root,bootindex=1"),
            *("-drive", f"if=none,id=data,file={self.data},format=raw,readonly=on"),
            *("-device", "virtio-blk-pci,drive=data", "-device", "virtio-rng-pci"),
            *("-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console"),
            *("-qmp", f"unix:{self.socket},server=on,wait=off"),
        ]


class Qemu:
    """A machine that is switched on, from ``start`` until it is off; a thread starts QEMU again after a reboot.

    QEMU dies with the thread that started it (so with the tests, however they end), which is why that thread does
    nothing else and stays.
    """

    def __init__(self, hardware: Hardware, *, saved: bool) -> None:
        self.hardware = hardware
        #: Whether a reboot of the guest ends with the machine on again.
        self.comes_back = True
        #: How often QEMU was started.
        self.boots = 0
        self._saved = saved
        self._process: subprocess.Popen[bytes] | None = None
        self._cards: dict[int, Card] = {}
        self._qmp: Qmp | None = None
        self._failure = ""
        self._stopping = False
        self._lock = threading.RLock()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"qemu-{hardware.name}", daemon=True)
        self._thread.start()
        if not self._up.wait(150):
            raise LabError(f"{hardware.name}: QEMU did not start within 150 s")
        if self._failure:
            raise LabError(self._failure)

    def running(self) -> bool:
        """Whether it is on, or about to be after a reboot."""
        return self._thread.is_alive()

    @property
    def qmp(self) -> Qmp:
        """The control socket of the QEMU that runs; ``LabError`` when it is off."""
        with self._lock:
            if self._qmp is None or not self.running():
                raise LabError(f"{self.hardware.name} is off. {self._failure}")
            return self._qmp

    def cut(self) -> None:
        """Cut the power: the guest gets no chance; what it had flushed is on the disk."""
        self._stopping = True
        try:
            self.qmp("quit", timeout=20)
        except LabError:
            with self._lock:
                if self._process is not None:
                    self._process.kill()
        self._thread.join(30)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            self._thread.join(30)

    def plug(self, index: int) -> None:
        """Put a card on the bus of the running machine."""
        with self._lock:
            qmp = self.qmp
            card = self._cards[index] = Card(index)
            name = f"card{index}"
            qmp("getfd", pass_fd=card.end.fileno(), fdname=name)
            card.end.close()
            qmp("device_add", driver=CARD_DEVICE, id=f"gpu{index}", fd=name, addr=f"{FIRST_SLOT + index:#x}")

    def unplug(self, index: int, *, seconds: float = 20) -> None:
        """Take a card off the bus; the guest's driver is told first and lets go of it, or doesn't."""
        qmp, device = self.qmp, f"gpu{index}"
        qmp.expect_deletion(device)
        qmp("device_del", id=device)
        if not qmp.wait_deleted(device, seconds):
            raise LabError(f"{self.hardware.name}: the guest did not let go of {device} within {seconds:.0f} s")
        self._cards.pop(index).close()

    def lose(self, index: int) -> None:
        """A card falls off the bus: the guest isn't told, every read of its configuration is all ones."""
        self._cards[index].lost = True

    def resident(self) -> int:
        """Bytes of memory that QEMU holds now."""
        with self._lock:
            if self._process is None:
                return 0
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def save(self) -> None:
        """Keep memory and devices in the disk's file. Cards block that: unplug them before."""
        said = self.qmp.monitor(f"savevm {SNAPSHOT}", timeout=120)
        if said:
            raise LabError(f"{self.hardware.name}: savevm: {said}")

    def _supervise(self) -> None:
        try:
            while True:
                process = self._launch()
                self._up.set()
                process.wait()
                reason = self._ended()
                if self._stopping or not self.comes_back or reason != "guest-reset":
                    return
        except LabError as error:
            self._failure = str(error)
        finally:
            self._up.set()

    def _launch(self) -> subprocess.Popen[bytes]:
        hardware = self.hardware
        command = hardware.command()
        with self._lock:
            saved, self._saved = self._saved, False
            if saved:
                # The state was saved without cards; they are plugged in when it runs.
                command += ["-loadvm", SNAPSHOT]
            else:
                self._cards = {index: Card(index) for index in sorted(hardware.cards)}
            for index, card in self._cards.items():
                end = card.end.fileno()
                command += ["-device", f"{CARD_DEVICE},id=gpu{index},fd={end},addr={FIRST_SLOT + index:#x}"]
            hardware.socket.unlink(missing_ok=True)
            log = hardware.folder / "qemu.log"
            with log.open("ab") as output:
                process = self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[card.end.fileno() for card in self._cards.values()],
                )
            for card in self._cards.values():
                card.end.close()
            try:
                self._qmp = Qmp(hardware.socket, lambda: process.poll() is None)
            except LabError as error:
                process.kill()
                process.wait()
                self._ended()
                raise LabError(f"{hardware.name}: {error}; QEMU said:\n{log.read_text()[-2000:]}") from None
            self.boots += 1
            return process

    def _ended(self) -> str:
        """Tidy up after QEMU; why it ended, in its words."""
        with self._lock:
            for card in self._cards.values():
                card.close()
            self._cards.clear()
            qmp, self._qmp = self._qmp, None
            if qmp is None:
                return ""
            reason = qmp.shutdown_reason()
            qmp.close()
            return reason


def copy(source: Path, target: Path) -> None:
    """A disk of a machine's own: loading a state writes into it."""
    shutil.copyfile(source, target)
