"""The container engine: found running, or installed and started; and its command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: Command → Debian package that brings it. Only what is missing gets installed.
TOOLS = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "mmdebstrap": "mmdebstrap",
    "gpg": "gnupg",
    "gcc": "gcc",
    "ssh-keygen": "openssh-client",
    "dpkg-deb": "dpkg",
    # What the transport's tests meet on this machine itself.
    "sshd": "openssh-server",
    "sudo": "sudo",
    "ps": "procps",
    "unshare": "util-linux",
}
LOG = Path("/var/log/provision-lab-dockerd.log")


class LabError(Exception):
    """The lab could not be brought up; the message says what to do."""


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def root(command: Sequence[str]) -> list[str]:
    """The command as root: as it is where we are root, behind sudo elsewhere."""
    return list(command) if os.geteuid() == 0 else ["sudo", *command]


def run(command: Sequence[str | Path], *, data: bytes | None = None, timeout: float = 900) -> str:
    """Run a command and return its stdout; raises ``LabError`` with the end of its output."""
    done = subprocess.run(
        [str(part) for part in command],
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise LabError(f"{' '.join(map(str, command))[:300]} ended with {done.returncode}:\n{tail}")
    return done.stdout.decode(errors="replace")


def install_missing_tools() -> None:
    """Install with apt what the lab needs on this machine and doesn't find."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    wanted = {package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None}
    if not Path("/usr/include/stdio.h").exists():
        wanted.add("libc6-dev")
    if answers():
        wanted.discard("docker.io")
    apt_install(wanted)


def apt_install(wanted: set[str]) -> None:
    """Install these packages with one call of apt; none is well. Raises LabError where there is no apt."""
    if not wanted:
        return
    if shutil.which("apt-get") is None:
        raise LabError(f"missing: {', '.join(sorted(wanted))}. Install them; the tests do it by themselves on Debian.")
    say(f"installing {' '.join(sorted(wanted))}")
    env = ["env", "DEBIAN_FRONTEND=noninteractive"]
    run(root([*env, "apt-get", "update", "-q"]))
    run(root([*env, "apt-get", "install", "-q", "-y", "--no-install-recommends", *sorted(wanted)]))


def answers() -> bool:
    """Whether a container engine answers to this user."""
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(
        [*docker_command(), "version", "-f", "{{.Server.Version}}"], capture_output=True, check=False, timeout=60
    )
    return asked.returncode == 0


def docker_command() -> list[str]:
    socket = Path("/var/run/docker.sock")
    if "DOCKER_HOST" in os.environ or not socket.exists() or os.access(socket, os.W_OK):
        return ["docker"]
    return ["sudo", "docker"]


def docker(*args: str | Path, data: bytes | None = None, timeout: float = 900) -> str:
    """``docker ARGS``: its stdout; ``LabError`` when it fails."""
    return run([*docker_command(), *map(str, args)], data=data, timeout=timeout)


def ensure_engine() -> None:
    """Use the engine that runs; start one, detached from this process, where none does."""
    install_missing_tools()
    if answers():
        return
    say("no container engine answers, starting dockerd")
    if Path("/run/systemd/system").is_dir():
        run(root(["systemctl", "start", "docker"]))
    else:
        # A daemon that was killed leaves its number behind, which another process may have now.
        pids = "/var/run/docker.pid /var/run/docker/containerd/containerd.pid"
        stale = f'for p in {pids}; do readlink "/proc/$(cat $p)/exe" | grep -Eq "/(dockerd|containerd)$" '
        stale += '|| rm -f "$p"; done 2>/dev/null'
        # The shell ends at once, so that the daemon is nobody's child here.
        subprocess.run(
            root(["sh", "-c", f"{stale}; dockerd >>{LOG} 2>&1 </dev/null &"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            check=True,
        )
    for _ in range(120):
        if answers():
            return
        time.sleep(0.5)
    raise LabError(f"dockerd did not come up within 60 s; see {LOG}")


def image_exists(tag: str) -> bool:
    return bool(docker("images", "-q", tag).strip())
