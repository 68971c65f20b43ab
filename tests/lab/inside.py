"""What tests ask a host whose inside they reach by a command: sshd's log, packages, the kernel's log."""

from __future__ import annotations

import shlex
import subprocess
from abc import ABC, abstractmethod

from tests.lab.paths import CLIENT_KEY, KNOWN_HOSTS


class Inside(ABC):
    """A host with systemd and sshd, whatever it runs in. ``port`` is where its sshd answers on 127.0.0.1."""

    name: str
    port: int

    @abstractmethod
    def exec(self, command: str, *, check: bool = False, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root in the host, not through the sshd that the product uses."""

    def sshd_log(self) -> list[str]:
        """Lines of sshd since the boot or the last ``clear_sshd_log``."""
        since = self.exec("cat /run/sshd-log-since 2>/dev/null").stdout.strip()
        cursor = f"--after-cursor={shlex.quote(since)}" if since else ""
        done = self.exec(f"journalctl -q -o cat --no-pager -u ssh.service {cursor}", check=True)
        return done.stdout.splitlines()

    def clear_sshd_log(self) -> None:
        """Forget what sshd logged until now."""
        self.exec(
            "journalctl -q -n 1 --show-cursor -o cat | sed -n 's/^-- cursor: //p' >/run/sshd-log-since",
            check=True,
        )

    def connections(self) -> int:
        """SSH connections accepted, from sshd's own log."""
        return sum(line.startswith("Accepted publickey") for line in self.sshd_log())

    def executions(self) -> int:
        """Commands executed over SSH, from sshd's own log."""
        return sum(line.startswith("Starting session: command") for line in self.sshd_log())

    def kernel_log(self, *lines: str) -> None:
        """Put lines into this boot's journal as the kernel's (SYSLOG_IDENTIFIER=kernel)."""
        for line in lines:
            self.exec(f"printf '%s\\n' {shlex.quote(line)} | systemd-cat -t kernel -p err", check=True)
        self.exec("journalctl --sync")

    def packages(self) -> dict[str, str]:
        """Installed packages and their versions."""
        listed = self.exec("dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n'", check=True).stdout
        rows = (line.split() for line in listed.splitlines())
        return {row[1]: row[2] for row in rows if row[0] == "ii"}

    def ssh(self, command: str, user: str = "ops") -> subprocess.CompletedProcess[str]:
        """Run a command over SSH as the controller would, host key checked."""
        options = [f"UserKnownHostsFile={KNOWN_HOSTS}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
        return subprocess.run(
            ["ssh", "-F", "none", "-i", str(CLIENT_KEY), "-p", str(self.port), "-l", user]
            + [part for option in options for part in ("-o", option)]
            + ["127.0.0.1", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
