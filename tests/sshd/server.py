"""This machine's own sshd on a free port of 127.0.0.1, in a namespace of its own.

It has its own users, sudoers, host keys and process numbers, so that nothing of the machine is touched and nothing
is left behind when it stops: the kernel ends every process of the namespace with it.

    root    logs in directly          plain   sudo without password        asked   sudo with the password PASSWORD
    barred  not in sudoers            notty   sudoers demands a terminal   shut    has /usr/sbin/nologin
    noisy   bash, whose .bashrc prints to both streams
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioner.model.inventory import Connection
from provisioner.quoting import quote

PASSWORD = 'it\'s a "pass" $word'
_UIDS = {"plain": 61001, "asked": 61002, "barred": 61003, "notty": 61004, "shut": 61005, "noisy": 61006}
_SHELLS = {"shut": "/usr/sbin/nologin", "noisy": "/bin/bash"}
_SUDOERS = """\
Defaults env_reset, use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Defaults:notty requiretty
root ALL=(ALL:ALL) ALL
plain,noisy ALL=(ALL) NOPASSWD: ALL
notty ALL=(ALL) NOPASSWD: ALL
asked ALL=(ALL) ALL
"""


def why_not() -> str:
    """Why this machine can't run the server; "" when it can."""
    missing = [tool for tool in ("sshd", "sudo", "unshare", "ssh-keygen") if not _tool(tool)]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install openssh-server sudo util-linux"
    if os.geteuid() != 0:
        return "an sshd with users of its own needs root"
    probe = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    return probe.stderr.strip()


def _tool(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def keygen(path: Path, kind: str = "ed25519") -> str:
    """A new key pair at `path`; the public key's line without its comment."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


@dataclass
class Traffic:
    """What the server's log says came in during a `Server.watch`: logins and executed commands."""

    logins: int = 0
    execs: int = 0


@dataclass(frozen=True)
class Server:
    """A running sshd. `host_key` is its public key as known_hosts has it."""

    folder: Path
    port: int
    host_key: str

    @property
    def key(self) -> Path:
        """The private key that every user of the server accepts."""
        return self.folder / "user_key"

    @property
    def known_hosts(self) -> Path:
        """A file that knows this server."""
        return self.folder / "known_hosts"

    @property
    def name(self) -> str:
        """How known_hosts calls the server."""
        return f"[127.0.0.1]:{self.port}"

    def connection(self, user: str = "root", *, become: str = "sudo", **more: object) -> Connection:
        """How an inventory would reach the server as `user`."""
        values: dict[str, object] = {"key": self.key, "known_hosts": self.known_hosts, "become": become, **more}
        return Connection("127.0.0.1", port=self.port, user=user, **values)  # type: ignore[arg-type]

    def log(self) -> str:
        """Everything the server has logged."""
        return (self.folder / "log").read_text()

    @contextmanager
    def watch(self) -> Iterator[Traffic]:
        """Count what comes in meanwhile; the numbers are there when the block has ended."""
        before = len(self.log())
        traffic = Traffic()
        yield traffic
        new = self.log()[before:]
        traffic.logins = len(re.findall(r"^Accepted publickey for ", new, re.MULTILINE))
        traffic.execs = len(re.findall(r"^Starting session: command ", new, re.MULTILINE))


def _hashed(password: str) -> str:
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    return str(crypt(password.encode(), b"$5$rounds=1000$saltsalt").decode())


def _write_users(folder: Path) -> None:
    """passwd, shadow and sudoers, and a home for everyone."""
    passwd, shadow = Path("/etc/passwd").read_text(), Path("/etc/shadow").read_text()
    root_home = folder / "home/root"
    root_home.mkdir(parents=True)
    passwd = re.sub(r"^root:.*$", f"root:x:0:0:root:{root_home}:/bin/sh", passwd, flags=re.MULTILINE)
    for name, uid in _UIDS.items():
        home = folder / "home" / name
        home.mkdir()
        os.chown(home, uid, 100)
        passwd += f"{name}:x:{uid}:100::{home}:{_SHELLS.get(name, '/bin/sh')}\n"
        shadow += f"{name}:{_hashed(PASSWORD) if name == 'asked' else '*'}:20000:0:99999:7:::\n"
    (folder / "home/noisy/.bashrc").write_text("echo welcome; echo mind the step >&2\n")
    for name, text, mode in (("passwd", passwd, 0o644), ("shadow", shadow, 0o600), ("sudoers", _SUDOERS, 0o440)):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*settings: str, pam: str = "") -> Iterator[Server]:
    """A server for as long as the block lasts. `settings` are further lines of its sshd_config, `pam` is its PAM
    file if it is to use that; {folder} in them is its folder."""
    folder = Path(tempfile.mkdtemp(prefix="provision-sshd-"))
    folder.chmod(0o755)
    try:
        port = _free_port()
        host_key = keygen(folder / "host_key")
        public = keygen(folder / "user_key")
        (folder / "authorized_keys").write_text(public + "\n")
        _write_users(folder)
        lines = (
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nStrictModes no",
            f"AuthorizedKeysFile {folder}/authorized_keys\nPermitRootLogin prohibit-password\nLogLevel VERBOSE",
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 200\nUseDNS no",
            f"UsePAM {'yes' if pam else 'no'}",
            *(line.format(folder=folder) for line in settings),
        )
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        if pam:
            (folder / "pam").write_text(pam.format(folder=folder))
        (folder / "log").touch()
        server = Server(folder, port, host_key)
        server.known_hosts.write_text(f"{server.name} {host_key}\n")
        with _process(folder, port):
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _process(folder: Path, port: int) -> Iterator[None]:
    Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    own = {"passwd": "passwd", "shadow": "shadow", "sudoers": "sudoers", "pam": "pam.d/sshd"}
    inside = "".join(
        f"mount --bind {quote(f'{folder}/{name}')} /etc/{place} && "
        for name, place in own.items()
        if (folder / name).exists()
    )
    inside += "mkdir -p /run/sudo && mount -t tmpfs -o mode=0711 none /run/sudo && "
    inside += f"exec {quote(str(_tool('sshd')))} -D -f {quote(f'{folder}/sshd_config')} -E {quote(f'{folder}/log')}"
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside],
        stdin=subprocess.DEVNULL,
    )
    try:
        _await_port(port, process)
        yield
    finally:
        process.kill()  # and with it the first process of the namespace, so all of them
        process.wait(10)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"sshd ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("sshd doesn't answer")
