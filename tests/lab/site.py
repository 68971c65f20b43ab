"""A site's folder for one test: an inventory of lab hosts, a playbook, and the command line run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.inside import Inside
from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS

PROVISION = str(Path(sys.executable).with_name("provision"))
REPO = Path(__file__).parents[2]

GPU_NODE = """\
[versions]
driver = "580.95.05"
flavour = "open"
toolkit = "1.18.0"
[gpu]
cards = 2
[containerd]
cgroup_driver = "systemd"
[repositories.nvidia]
uri = "file:/srv/lab-repo/nvidia"
suite = "{distribution}"
components = ["main"]
key_file = "repo.asc"
key_fingerprint = "8B9701EDB92A647E5E0FFB006150B7BB7B610A27"
"""


@dataclass
class Site:
    """A folder with `site.toml`. `environment` is added to the command's."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def inventory(self) -> Path:
        return self.folder / "site.toml"

    def write(self, *hosts: Inside, text: str = "", playbook: str | None = None, user: str = "ops") -> None:
        """The inventory of these hosts; `playbook` is the text of a playbook of its own, None means gpu-node."""
        (self.folder / "repo.asc").write_bytes((REPO / "tests/lab/keys/repo.asc").read_bytes())
        lines = [f'playbook = "{"book.toml" if playbook is not None else "gpu-node"}"', "[connection]"]
        lines += [f'user = "{user}"', f'key = "{CLIENT_KEY}"', f'known_hosts = "{KNOWN_HOSTS}"', text]
        for host in hosts:
            lines += [f"[hosts.{host.name}]", 'address = "127.0.0.1"', f"port = {host.port}"]
        self.inventory.write_text("\n".join(lines) + "\n")
        if playbook is not None:
            (self.folder / "book.toml").write_text(playbook)

    def command(self, verb: str, *arguments: str) -> list[str]:
        """The words of `provision VERB site.toml ARGUMENTS`."""
        return [PROVISION, verb, str(self.inventory), *arguments]

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PROVISION_STATE_DIR": str(self.folder / "state"), **self.environment}

    def run(self, verb: str, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run it to its end, without a terminal."""
        return subprocess.run(
            self.command(verb, *arguments),
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[str]:
        """Start it, for a test that kills or interrupts it."""
        return subprocess.Popen(
            self.command(verb, *arguments),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(self, verb: str, *arguments: str) -> dict[str, Any]:
        """Its JSON document; the command may have failed, the document says so."""
        done = self.run(verb, *arguments, "--json")
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["exit_code"] == done.returncode, done.stderr
        return document


def book(*tasks: str, stage: str = "site") -> str:
    """A playbook of one stage; each task is the TOML lines of its table."""
    return f'[[stages]]\nname = "{stage}"\n' + "".join(f"[[stages.tasks]]\n{task}\n" for task in tasks)
