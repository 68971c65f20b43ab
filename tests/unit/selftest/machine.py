"""A folder that looks like a host to the boot self-test: kernel files, commands on PATH, configuration."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parents[3] / "templates"
SELFTEST = TEMPLATES / "selftest"
VERSION = "535.261.03"
TOOLS = """awk base64 cat chmod cut date dirname env grep head kill ln mkdir mktemp mknod mv paste readlink rm sed
setsid sh sha256sum sleep sort stat tail tr uname"""
"""All that the scripts may need besides NVIDIA's and systemd's commands."""
BOOT_ID = "11111111-2222-3333-4444-555555555555"


class Machine:
    """By default a healthy host with two cards. Commands are small sh scripts in `bin`, first on PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.tools = root / "tools"
        self.tools.mkdir()
        for tool in TOOLS.split():
            self.link(tool)
        self.state = root / "state"
        self.conf = root / "etc" / "selftest.conf"
        self.settings: dict[str, str] = {
            "STATE_DIR": str(self.state),
            "SYSFS": str(root / "sys"),
            "PROCFS": str(root / "proc"),
            "DEVFS": str(root / "dev"),
            "EXPECTED_CARDS": "2",
            "DEADLINE": "20",
        }
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n")
        self.write("proc/sys/kernel/random/boot_id", BOOT_ID + "\n")
        self.boot(547793)
        self.write("sys/module/nvidia/version", VERSION + "\n")
        (root / "sys/module/nvidia_uvm").mkdir(parents=True)
        self.write("dev/nvidia-uvm", "")
        for slot in ("01", "02"):
            self.card(f"0000:{slot}:00.0")
        for library in ("libcuda", "libnvidia-ml"):
            self.write(f"lib/{library}.so.{VERSION}", "ELF")
            (root / f"lib/{library}.so.1").symlink_to(f"{library}.so.{VERSION}")
        lines = [f"\t{name}.so.1 (libc6,x86-64) => {root}/lib/{name}.so.1" for name in ("libcuda", "libnvidia-ml")]
        self.command("ldconfig", "cat <<'.'\n" + "\n".join(["2 libs found", *lines]) + "\n.")
        self.command("modinfo", f"echo {VERSION}")
        self.smi_list = "GPU 0: NVIDIA A (UUID: GPU-a)\nGPU 1: NVIDIA A (UUID: GPU-b)"
        self.smi()
        self.kernel_log()
        self.cuda('CARD {"index": 0, "result": "pass"}', 'CARD {"index": 1, "result": "pass"}', "RESULT pass - well")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def boot(self, start: int) -> None:
        """Start of PID 1 in clock ticks, field 22 of its stat; the name holds what a name may hold."""
        self.write("proc/1/stat", f"1 (a ) b) S {' '.join(['0'] * 18)} {start} 0 0\n")

    def card(self, address: str, driver: str = "nvidia") -> None:
        self.write(f"sys/bus/pci/devices/{address}/vendor", "0x10de\n")
        self.write(f"sys/bus/pci/devices/{address}/class", "0x030200\n")
        (self.root / f"sys/bus/pci/devices/{address}/driver").symlink_to(f"/sys/bus/pci/drivers/{driver}")

    def link(self, tool: str) -> None:
        """Puts a command of this system on the host's PATH."""
        found = os.path.realpath(sys.executable) if tool == "python3" else shutil.which(tool)
        assert found, f"{tool} is needed"
        (self.tools / tool).symlink_to(found)

    def command(self, name: str, script: str) -> None:
        self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def smi(self, listing: str | None = None, rc: int = 0, version: str = VERSION) -> None:
        text = self.smi_list if listing is None else listing
        self.command(
            "nvidia-smi", f"case $1 in -L) cat <<'.'\n{text}\n.\nexit {rc};; *) echo {version}; echo {version};; esac"
        )

    def kernel_log(self, *lines: str) -> None:
        self.command("journalctl", "cat <<'.'\nkernel: something else\n" + "\n".join(lines) + "\n.")

    def cuda(self, *lines: str, rc: int = 0, before: str = "") -> None:
        """What the computation prints, in place of python3."""
        self.command("python3", f"{before}\ncat <<'.'\n" + "\n".join(lines) + f"\n.\nexit {rc}")

    def run(self, script: str = "provision-selftest", *options: str) -> subprocess.CompletedProcess[str]:
        """The script as the unit runs it, below dash. PATH holds nothing but our commands and TOOLS."""
        self.conf.parent.mkdir(exist_ok=True)
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        environment = {"PATH": f"{self.bin}:{self.tools}", "TMPDIR": str(self.root)}
        return subprocess.run(
            [shutil.which("dash") or "sh", str(SELFTEST / script), *options, str(self.conf)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def result(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.state / "selftest.json").read_text())
        return loaded

    def verdict(self, *options: str) -> tuple[str, str]:
        """Runs the test; result and reason of it."""
        done = self.run("provision-selftest", *options)
        assert done.returncode == 0, done.stderr
        found = self.result()
        return found["result"], found["reason"]
