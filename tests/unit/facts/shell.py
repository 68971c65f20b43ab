"""Run a probe's script on a host made of files: its absolute paths lead below a folder of the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provisioner.facts.merge import facts_from, merge
from provisioner.model.fact import Fact, Probe

ROOTS = ("/sys/", "/proc/", "/etc/", "/boot/", "/dev/", "/lib/", "/usr/", "/run/", "/var/", "/opt/", "/home/")


def put(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Make these files below `root`; a text that begins with "-> " is a link."""
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_text(content, encoding="utf-8")


def ask(probe: Probe[Any], root: Path, commands: Mapping[str, str] | None = None, shell: str = "dash") -> Fact[Any]:
    """The fact that `probe` reads from the files below `root`. `commands`: name → sh script, found first."""
    tools = root / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (commands or {}).items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    script = merge([probe])
    head, body = script.split("_p1() (\n", 1)
    for word in ROOTS:
        for before in (" ", '"', "'", "=", "<", "("):
            body = body.replace(f"{before}{word}", f"{before}{root}{word}")
    head = head.replace("PATH=/usr/local/sbin", f"PATH={tools}:/usr/local/sbin")
    done = subprocess.run(
        [shell, "-s"], input=f"{head}_p1() (\n{body}".encode(), capture_output=True, check=False, env=dict(os.environ)
    )
    assert not done.stderr, done.stderr.decode()
    return facts_from("host", [probe], done.stdout, 0.0).fact(probe)
