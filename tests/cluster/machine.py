"""The machine below a node: how many cards it shows, and what a command does on it."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.lab.host import LabHost


class Machine(Protocol):
    """What the agent needs of a machine. Each method may block."""

    def machine_id(self) -> str: ...

    def boot(self) -> str:
        """Identity of the boot; empty while the machine is down."""

    def cards(self) -> int: ...

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """A pod's command: exit status and the end of the output. Without a command it computes on a card, as the
        program in an image for CUDA does, and ends with 0 only if that came out right."""


def _succeeds(command: Sequence[str]) -> tuple[int, str]:
    return 0, ""


@dataclass
class Described:
    """A machine that is only described: its fields may be changed by a test at any time."""

    id: str
    count: int | Callable[[], int] = 0
    booted: str = "boot-1"
    runs: Callable[[Sequence[str]], tuple[int, str]] = field(default=_succeeds)

    def machine_id(self) -> str:
        return self.id

    def boot(self) -> str:
        return self.booted

    def cards(self) -> int:
        return self.count() if callable(self.count) else self.count

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        return self.runs(command)


CUDA_CHECK = Path(__file__).parents[2] / "templates" / "selftest" / "cuda_check.py"
_PROGRAM = "/run/image-of-a-pod/cuda_check.py"
# A host without python3 has no other program that computes; there the driver must at least list a card.
_COMPUTE = f"""
command -v python3 >/dev/null || {{ nvidia-smi -L | tee /dev/stderr | grep -q '^GPU '; exit; }}
said=$(python3 -I {_PROGRAM})
printf '%s\\n' "$said"
printf '%s\\n' "$said" | grep -q '^RESULT pass'
"""


class Hosted:
    """A host of the lab, asked through the container engine."""

    def __init__(self, host: LabHost) -> None:
        self._host = host

    def machine_id(self) -> str:
        return self._host.get("/etc/machine-id").decode().strip()

    def boot(self) -> str:
        try:
            done = self._host.exec(
                "cat /proc/sys/kernel/random/boot_id && sed 's/.*) //' /proc/1/stat | cut -d ' ' -f 20", timeout=10
            )
        except subprocess.TimeoutExpired:
            return ""
        identity = done.stdout if done.returncode == 0 else ""
        return hashlib.sha256(identity.encode()).hexdigest()[:16] if identity else ""

    def cards(self) -> int:
        # Not by nvidia-smi: as root it would load the module that a roll has just taken out.
        try:
            done = self._host.exec("ls /proc/driver/nvidia/gpus", timeout=20)
        except subprocess.TimeoutExpired:
            return 0
        return len(done.stdout.split()) if done.returncode == 0 else 0

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        try:
            if not command:
                self._host.put(_PROGRAM, CUDA_CHECK.read_bytes())
            done = self._host.exec(shlex.join(command) if command else _COMPUTE, timeout=120)
        except subprocess.TimeoutExpired:
            return 124, "the command did not end within 120 s"
        return done.returncode, (done.stdout + done.stderr)[-2000:]
