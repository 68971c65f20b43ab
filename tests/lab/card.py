"""State of the simulated cards of one host, as a test sets it from outside."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class CardState:
    """What the host's hardware and driver do. README.md beside this file explains the values."""

    count: int = 2
    model: str = "NVIDIA H100 PCIe"
    device_id: str = "0x2331"
    #: Number of NVSwitches on the PCI bus.
    nvswitch: int = 0
    #: Indices of cards that fell off the bus.
    lost: tuple[int, ...] = ()
    #: A process holds /dev/nvidia0, so that the module can't be unloaded.
    busy: bool = False
    #: modprobe: "ok", "key" (key was rejected by service), "fail" (no such device).
    load: str = "ok"
    #: rmmod: "ok", "fail" (in use by the kernel, whoever holds it).
    unload: str = "ok"
    #: Another kernel driver has the cards: "nouveau", "nova_core", "vfio_pci"; "" for none.
    bound: str = ""
    #: nvidia-smi: "ok", "hang" (also deaf to SIGTERM), "exitN" (N = 9, 14, 15 with its real message, or any).
    smi: str = "ok"
    #: Driver API: "ok", "wrong", "wrong:CARD", "error:CODE" (by cuInit), "error:CODE@CALL", "hang", "crash".
    cuda: str = "ok"

    def shell(self) -> str:
        values = {
            "count": str(self.count),
            "model": self.model,
            "device_id": self.device_id,
            "nvswitch": str(self.nvswitch),
            "lost": " ".join(map(str, self.lost)),
            "busy": "1" if self.busy else "0",
            "load": self.load,
            "unload": self.unload,
            "bound": self.bound,
            "smi": self.smi,
            "cuda": self.cuda,
        }
        return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


class Card:
    """The cards of one host; ``set`` takes effect at once and lasts over reboots until the next reset."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.state = CardState()

    def set(self, **changes: object) -> None:
        """Change fields of the state, for example ``set(count=1, smi="hang")``."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self._write(self.state.shell())

    def repair(self) -> None:
        """Back to two healthy, idle cards."""
        self.state = CardState()
        self._write(self.state.shell())
