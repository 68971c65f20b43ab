"""A host made of files: a step's real script runs here, its absolute paths lead below a folder of the test."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from provisioner.transport.executor import Completed
from provisioner.transport.fake import ShellExecutor
from provisioner.upgrade.hoststep import Fence, Step, scripted

T = TypeVar("T")
FENCE = Fence("roll-1", 7, "ops@desk")


class Machine(ShellExecutor):
    """`commands`: name → sh text, found before the real ones; `calls` reads what they noted by `note WORDS`."""

    def __init__(self, root: Path, commands: Mapping[str, str] | None = None, shell: str = "dash") -> None:
        super().__init__("gpu01", shell=(shell, "-c"))
        self.root = root
        for folder in ("state", "run", "sys/module", "sys/bus/pci/devices", "tools", "etc/cdi"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.command("note", f'echo "$*" >>{root}/calls')
        for name, text in (commands or {}).items():
            self.command(name, text)

    def command(self, name: str, text: str) -> None:
        path = self.root / "tools" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def module(self, name: str, *, version: str = "", refcnt: int = 0, holders: tuple[str, ...] = ()) -> None:
        """A module as /sys/module shows it."""
        folder = self.root / "sys/module" / name
        (folder / "holders").mkdir(parents=True)
        (folder / "refcnt").write_text(f"{refcnt}\n")
        if version:
            (folder / "version").write_text(f"{version}\n")
        for holder in holders:
            (folder / "holders" / holder).touch()

    def state(self, name: str) -> Path:
        return self.root / "state" / name

    def run(self, script: str, *, timeout: float) -> Completed:
        script = script.replace("/var/lib/provision", str(self.root / "state"))
        script = script.replace("/run/provision", str(self.root / "run"))
        script = re.sub(r"(?<![\w/])/sys/", f"{self.root}/sys/", script)
        script = script.replace("/etc/cdi", f"{self.root}/etc/cdi").replace("/var/run/cdi", f"{self.root}/run/cdi")
        # No process of the machine that runs the test belongs to the host.
        script = script.replace("/proc/[0-9]*/", f"{self.root}/proc/[0-9]*/")
        script = script.replace("PATH=/usr/local/sbin:", f"PATH={self.root}/tools:/usr/local/sbin:")
        script = script.replace("[ -d /run/systemd/system ]", "true")
        return super().run(script, timeout=timeout)

    def run_body(self, line: str) -> list[str]:
        """The lines that one function of holders.sh prints."""
        script = scripted(FENCE, ("holders",), line).replace("/proc/$1/cmdline", f"{self.root}/proc/$1/cmdline")
        done = self.run(script, timeout=20)
        assert done.rc == 0, done.stderr
        return done.stdout.decode().splitlines()[:-1]

    def do(self, step: Step[T]) -> T:
        """Run a step, with its script unharmed by an environment of the test's own."""
        os.environ.pop("PROVISION_TOKEN", None)
        return step.run(self)
