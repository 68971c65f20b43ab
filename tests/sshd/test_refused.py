"""What a person is told when a host can't be reached, entered, or worked on as root."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.errors import AuthenticationError, Disconnected, SudoError, TransportError, Unreachable
from provisioner.model.inventory import Connection, Secret
from tests.sshd import server as sshd
from tests.sshd.conftest import Open
from tests.sshd.server import PASSWORD, Server

WRONG = Secret("sudo", "not the password")


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("asked", None, "asks for a password"),
        ("asked", WRONG, "password is wrong"),
        ("barred", None, "asks for a password"),
        ("notty", None, "requiretty"),
    ],
)
def test_sudo(server: Server, open_executor: Open, user: str, password: Secret | None, reason: str) -> None:
    executor = open_executor(server.connection(user, sudo_password=password))
    with pytest.raises(SudoError, match=reason) as caught:
        executor.run("echo executed", timeout=30)
    assert caught.value.remedy
    assert WRONG.value not in str(caught.value)


def test_a_wrong_sudo_password_is_tried_once(server: Server, open_executor: Open) -> None:
    """More would lock the account where the site counts failures, and would hand the script to the password check."""
    executor = open_executor(server.connection("asked", sudo_password=WRONG))
    with pytest.raises(SudoError):
        executor.run("echo executed", timeout=30)
    right = open_executor(server.connection("asked", sudo_password=Secret("sudo", PASSWORD)))
    assert right.run("id -u", timeout=30).stdout == b"0\n"


def test_a_user_without_a_shell(server: Server, open_executor: Open) -> None:
    with pytest.raises(AuthenticationError, match="may not log in"):
        open_executor(server.connection("shut")).run("true", timeout=20)


def test_a_login_that_is_not_root(server: Server, open_executor: Open) -> None:
    with pytest.raises(SudoError, match="isn't root"):
        open_executor(server.connection("plain", become="none")).run("true", timeout=20)


BOOTING = "System is booting up. Unprivileged users are not permitted to log in yet. See pam_nologin(8)."
PAM = """\
auth required pam_permit.so
account required pam_nologin.so file={folder}/nologin
account required pam_permit.so
session required pam_permit.so
"""


def test_a_host_that_is_still_booting_is_no_refusal(open_executor: Open) -> None:
    """Whoever waits for a host after its restart goes on waiting; it would stop at a refused login."""
    reason = sshd.why_not()
    if reason:
        pytest.skip(f"no sshd to test with: {reason}")
    with sshd.running(pam=PAM) as booting:
        (booting.folder / "nologin").write_text(BOOTING + "\n")
        (booting.folder / "nologin").chmod(0o644)
        executor = open_executor(booting.connection("plain"))
        with pytest.raises(Unreachable, match="booting up"):
            executor.run("true", timeout=20)
        (booting.folder / "nologin").unlink()
        assert executor.run("id -u", timeout=20).stdout == b"0\n"


def test_a_refused_key(server: Server, open_executor: Open, tmp_path: Path) -> None:
    sshd.keygen(tmp_path / "id_other")
    with pytest.raises(AuthenticationError) as caught:
        open_executor(server.connection("plain", key=tmp_path / "id_other")).run("true", timeout=20)
    assert str(tmp_path / "id_other") in caught.value.why
    assert "plain" in caught.value.what


def test_a_missing_key(server: Server, open_executor: Open, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="No such file"):
        open_executor(server.connection(key=tmp_path / "absent")).run("true", timeout=20)


def encrypt(path: Path) -> None:
    """A new key at `path` that asks for a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "phrase", "-f", str(path)], check=True)


def test_an_encrypted_key(server: Server, open_executor: Open, tmp_path: Path) -> None:
    path = tmp_path / "locked"
    encrypt(path)
    with pytest.raises(AuthenticationError, match="ssh-add"):
        open_executor(server.connection(key=path)).run("true", timeout=20)


def test_a_file_that_is_no_key(server: Server, open_executor: Open, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a key\n")
    with pytest.raises(AuthenticationError, match="can't use"):
        open_executor(server.connection(key=tmp_path / "text")).run("true", timeout=20)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A running SSH agent that holds nothing."""
    monkeypatch.setenv("SSH_AUTH_SOCK", f"{tmp_path}/agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", f"{tmp_path}/agent"], stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "agent").exists():
            time.sleep(0.01)
        yield
        process.terminate()


@pytest.mark.usefixtures("agent")
def test_an_agent_is_asked_only_where_it_is_wanted(server: Server, open_executor: Open, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="the agent holds none"):
        open_executor(server.connection(key=None, agent=True)).run("true", timeout=20)
    for nth in range(7):  # one more than a server lets be tried
        sshd.keygen(tmp_path / f"other{nth}")
        subprocess.run(["ssh-add", "-q", tmp_path / f"other{nth}"], check=True)
    subprocess.run(["ssh-add", "-q", server.key], check=True)
    public = tmp_path / "user_key.pub"
    public.write_bytes(server.key.with_suffix(".pub").read_bytes())
    named = open_executor(server.connection(key=tmp_path / "user_key", agent=True))
    assert named.run("true", timeout=20).rc == 0
    with pytest.raises(AuthenticationError):
        open_executor(server.connection(key=tmp_path / "other0")).run("true", timeout=20)


def test_without_a_key_the_users_default_keys_are_offered(
    server: Server, open_executor: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(AuthenticationError, match="no default key"):
        open_executor(server.connection(key=None)).run("true", timeout=20)
    sshd.keygen(tmp_path / ".ssh/id_ecdsa", "ecdsa")
    encrypt(tmp_path / ".ssh/id_rsa")
    with pytest.raises(AuthenticationError, match=r"id_ecdsa"):
        open_executor(server.connection(key=None)).run("true", timeout=20)
    (tmp_path / ".ssh/id_ed25519").symlink_to(server.key)
    assert open_executor(server.connection(key=None)).run("true", timeout=20).rc == 0


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port of 127.0.0.1 where nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def refused(open_executor: Open, connection: Connection) -> TransportError:
    with pytest.raises(TransportError) as caught:
        open_executor(connection).run("true", timeout=20)
    return caught.value


def test_nothing_listens(server: Server, open_executor: Open, nobody: int) -> None:
    error = refused(open_executor, replace(server.connection(), port=nobody))
    assert isinstance(error, Unreachable)
    assert f"127.0.0.1 port {nobody}" in error.what
    assert "refused" in error.why


def test_nothing_answers(server: Server, open_executor: Open, silent: int) -> None:
    error = refused(open_executor, replace(server.connection(timeout=1.0), port=silent))
    assert isinstance(error, Unreachable)


def test_close_while_connecting(server: Server, open_executor: Open, silent: int) -> None:
    executor = open_executor(replace(server.connection(timeout=20.0), port=silent))
    threading.Timer(0.3, executor.close).start()
    started = time.monotonic()
    with pytest.raises(Disconnected, match="closed"):
        executor.run("true", timeout=20)
    assert time.monotonic() - started < 5


def test_no_such_name(server: Server, open_executor: Open) -> None:
    error = refused(open_executor, replace(server.connection(), address="gpu01.invalid"))
    assert isinstance(error, Unreachable)
    assert "resolve" in error.why


def test_no_ssh_there(server: Server, open_executor: Open) -> None:
    """Another kind of server: it closes the connection as soon as it is spoken to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def hang_up() -> None:
            accepted, _ = listening.accept()
            accepted.sendall(b"220 mail ready\r\n")
            accepted.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        error = refused(open_executor, replace(server.connection(), port=listening.getsockname()[1]))
        thread.join()
    assert isinstance(error, Unreachable)
    assert error.remedy
