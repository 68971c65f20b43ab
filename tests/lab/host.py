"""One host of the lab: a container, started, stopped, broken and looked into from outside."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.lab.card import Card
from tests.lab.engine import LabError, docker, docker_command
from tests.lab.inside import Inside
from tests.lab.paths import CLIENT_KEY, STATE, fingerprint

STATE_FILE = "/var/lib/gpu-sim/card.env"


@dataclass(frozen=True)
class HostSpec:
    """What a host is made of. ``port`` is where its sshd answers on 127.0.0.1."""

    name: str
    port: int
    base: str
    what: str
    #: Started by ``lab-up``; the others by the tests that want them.
    shown: bool = False


HOSTS = {
    spec.name: spec
    for spec in (
        HostSpec("gpu-a", 22201, "debian12", "Debian 12, containerd 1.6", shown=True),
        HostSpec("gpu-b", 22202, "debian13", "Debian 13, containerd 1.7, no python3", shown=True),
        HostSpec("gpu-c", 22203, "prepared", "Debian 12, prepared by hand before", shown=True),
        HostSpec("gpu-d", 22204, "debian12", "Debian 12, for Debian's real driver packages"),
        HostSpec("gpu-e", 22205, "sid", "Debian 13 with containerd 2 from sid"),
        HostSpec("gpu-k", 22221, "debian12", "Debian 12, node of the test cluster"),
        HostSpec("gpu-l", 22222, "debian13", "Debian 13, node of the test cluster"),
        HostSpec("gpu-m", 22223, "debian12", "Debian 12, node of the test cluster"),
        HostSpec("gpu-x", 22206, "debian12", "Debian 12, for tests that break a host"),
        HostSpec("gpu-y", 22207, "debian13", "Debian 13, for tests that break a host"),
        HostSpec("gpu-z", 22208, "debian12", "Debian 12, for tests that break a host"),
        HostSpec("gpu-u", 22211, "debian12", "Debian 12, for tests of containerd 1.6"),
        HostSpec("gpu-v", 22212, "debian13", "Debian 13, for tests of containerd 1.7"),
        HostSpec("gpu-t", 22213, "debian12", "Debian 12, for tests of the upgrade on a host"),
    )
}


class LabHost(Inside):
    """Handle of one host. Commands through ``exec`` go through the engine, not through SSH."""

    def __init__(self, spec: HostSpec, image: Callable[[], str], repository: Callable[[], Path]) -> None:
        self.spec = spec
        self.name = spec.name
        self.port = spec.port
        self.container = f"provision-lab-{spec.name}"
        self._image = image
        self._repository = repository
        self.card = Card(self._write_card)

    # --- life -------------------------------------------------------------------------------------
    def running(self) -> bool:
        asked = subprocess.run(
            [*docker_command(), "inspect", "-f", "{{.State.Running}}", self.container],
            capture_output=True,
            text=True,
            check=False,
        )
        return asked.stdout.strip() == "true"

    def exists(self) -> bool:
        return self._label() is not None

    def up_to_date(self) -> bool:
        """Whether the container was made of today's image and repository."""
        return self._label() == self._recipe()

    def up(self) -> None:
        """Make sure that the host runs; as it is where it was made of the same recipe."""
        if not self.up_to_date():
            self.reset()
        elif not self.running():
            self.start()
        else:
            self.wait()

    def reset(self) -> None:
        """Back to the pristine image, with the same host keys. Takes a few seconds."""
        self.remove()
        self._create()
        self.card = Card(self._write_card)
        self.start()

    def remove(self) -> None:
        if self.exists():
            docker("rm", "-f", "-v", self.container)

    def start(self) -> None:
        docker("update", "--restart=unless-stopped", self.container)
        docker("start", self.container)
        self.wait()

    def stop(self) -> None:
        """Cut the power: the container is killed and stays down until ``start``."""
        docker("kill", self.container)

    def pause(self) -> None:
        """Freeze the host: connections stay open and nothing answers, until ``unpause``."""
        docker("pause", self.container)

    def unpause(self) -> None:
        docker("unpause", self.container)

    def reboot(self, *, comes_back: bool = True) -> None:
        """Reboot as ``systemctl reboot`` does; mounts, /run, /dev and loaded modules are lost."""
        if not comes_back:
            self.never_come_back()
        docker("restart" if comes_back else "stop", "-t", "15", self.container)
        if comes_back:
            self.wait()

    def never_come_back(self) -> None:
        """From now on a reboot of this host ends with the host down, until ``start``."""
        docker("update", "--restart=no", self.container)

    def wait(self, seconds: float = 60) -> None:
        """Wait until systemd has finished booting and sshd listens."""
        end = time.monotonic() + seconds
        state = ""
        while time.monotonic() < end:
            asked = self.exec(
                "systemctl is-system-running; systemctl is-active ssh.service && systemctl is-active gpu-sim.service"
            )
            state = asked.stdout.strip().replace("\n", " ")
            if state.split(" ")[0] in ("running", "degraded") and state.endswith("active active"):
                return
            time.sleep(0.4)
        raise LabError(f"{self.name} did not boot within {seconds:.0f} s: {state!r}\n{self._boot_log()}")

    # --- looking and reaching inside -----------------------------------------------------------------
    def exec(self, command: str, *, check: bool = False, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root in the host."""
        done = subprocess.run(
            [*docker_command(), "exec", "-i", self.container, "bash", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise LabError(f"{self.name}: {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def put(self, path: str, content: bytes | str, mode: int = 0o644) -> None:
        """Write a file, making its folder where it is missing. Works on a stopped host too."""
        data = content.encode() if isinstance(content, str) else content
        if not self.running():
            docker("cp", "-", f"{self.container}:/", data=_tar([(path, data, mode)]))
            return
        folder = shlex.quote(str(Path(path).parent))
        target = shlex.quote(path)
        docker(
            "exec",
            "-i",
            self.container,
            "sh",
            "-c",
            f"mkdir -p {folder} && cat >{target} && chmod {mode:o} {target}",
            data=data,
        )

    def get(self, path: str) -> bytes:
        """Content of a file; ``FileNotFoundError`` where there is none."""
        done = subprocess.run(
            [*docker_command(), "exec", self.container, "cat", path],
            capture_output=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0:
            raise FileNotFoundError(f"{self.name}:{path}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    # --- inside ---------------------------------------------------------------------------------------
    def image(self) -> str:
        """The engine's name of the image that the host is made of."""
        return self._image()

    def packages_folder(self) -> Path:
        """The repositories on this machine, which hosts see as /srv/lab-repo."""
        return self._repository()

    def _write_card(self, text: str) -> None:
        self.put(STATE_FILE, text)
        if self.running():
            self.exec("/opt/gpu-sim/gpu-sim refresh", check=True)

    def _recipe(self) -> str:
        keys = fingerprint([CLIENT_KEY.with_suffix(".pub"), STATE / "hosts" / self.name])
        return f"{self._image()} {self._repository()} {keys}"

    def _label(self) -> str | None:
        asked = subprocess.run(
            [*docker_command(), "inspect", "-f", "{{json .Config.Labels}}", self.container],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode != 0:
            return None
        return str((json.loads(asked.stdout) or {}).get("provision-lab-recipe", ""))

    def _create(self) -> None:
        docker(
            "create",
            "--name",
            self.container,
            "--hostname",
            self.name,
            "--label",
            "provision-lab=1",
            "--label",
            f"provision-lab-recipe={self._recipe()}",
            *_privileges(),
            "--tmpfs",
            "/run:exec,mode=755",
            "--tmpfs",
            "/run/lock",
            "--tmpfs",
            "/tmp:exec,mode=1777",
            "-v",
            "/sys/fs/cgroup:/sys/fs/cgroup:rw",
            "-v",
            "/var/lib/containerd",
            "-v",
            f"{self._repository()}:/srv/lab-repo:ro",
            "-p",
            f"127.0.0.1:{self.port}:22",
            "--restart=unless-stopped",
            "-e",
            "container=docker",
            self._image(),
            "/lib/systemd/systemd",
            "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
        )
        docker("cp", "-", f"{self.container}:/", data=_tar(self._own_files()))

    def _own_files(self) -> Iterable[tuple[str, bytes, int]]:
        """What makes this host itself: machine id, host keys, the client's public key."""
        public = (STATE / "id_ed25519.pub").read_bytes()
        yield "/etc/machine-id", (hashlib.md5(self.name.encode()).hexdigest() + "\n").encode(), 0o444
        for kind in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
            content = (STATE / "hosts" / self.name / kind).read_bytes()
            yield f"/etc/ssh/{kind}", content, 0o644 if kind.endswith("pub") else 0o600
        for home, owner in (("/root", 0), ("/home/ops", 1000), ("/home/pw", 1001)):
            yield f"{home}/.ssh/authorized_keys:{owner}", public, 0o600
        yield STATE_FILE, self.card.state.shell().encode(), 0o644

    def _boot_log(self) -> str:
        return self.exec("systemctl --failed --no-legend; systemctl list-jobs; journalctl -b -n 30 --no-pager").stdout


@functools.cache
def _privileges() -> list[str]:
    """Everything but SYS_RESOURCE, which the bounding set of a sandbox may lack."""
    options = ["--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE"]
    options += ["--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"]
    if docker("info", "-f", "{{.CgroupVersion}}").strip() == "2":
        # systemd must find its own group below the mounted tree.
        options.append("--cgroupns=host")
    return options


def _tar(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """A tar archive; a path may carry its owner's number as ``PATH:UID``, its folder then belongs to it too."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content, mode in files:
            path, _, owner = name.partition(":")
            uid = int(owner or 0)
            if owner:
                folder = tarfile.TarInfo(str(Path(path).parent).lstrip("/"))
                folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, uid, uid
                archive.addfile(folder)
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode, info.uid, info.gid, info.mtime = len(content), mode, uid, uid, int(time.time())
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
