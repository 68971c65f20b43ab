"""Whom a run talks to: strict by default, and every refusal says what to compare and what to change."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
from pathlib import Path

import pytest

from provisioner.errors import HostKeyError
from tests.sshd import server as sshd
from tests.sshd.conftest import Open
from tests.sshd.server import Server


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    """A known_hosts with many other servers in it, and no line end after the last."""
    path = tmp_path / "known_hosts"
    other = sshd.keygen(tmp_path / "other_key")
    path.write_text("\n".join(f"other{nth}.example,192.0.2.{nth} {other}" for nth in range(50)))
    return path


def fingerprint(public: str) -> str:
    shown = subprocess.run(["ssh-keygen", "-lf", "-"], input=public, capture_output=True, text=True, check=True)
    return shown.stdout.split()[1]


def add(path: Path, *lines: str) -> None:
    path.write_text(path.read_text() + "".join(f"\n{line}" for line in lines) + "\n")


def hashed(name: str) -> str:
    salt = bytes(range(20))
    digest = hmac.digest(salt, name.encode(), hashlib.sha1)
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
@pytest.mark.parametrize("kind", ["plain", "hashed", "pattern", "with others"])
def test_a_known_key_is_accepted(
    server: Server, open_executor: Open, known_hosts: Path, kind: str, policy: str
) -> None:
    names = {
        "plain": server.name,
        "hashed": hashed(server.name),
        "pattern": f"[127.0.0.*]:{server.port}",
        "with others": f"gpu01.example,{server.name}",
    }
    add(known_hosts, f"{names[kind]} {server.host_key} gpu01 of today")
    before = known_hosts.read_text()
    executor = open_executor(server.connection(known_hosts=known_hosts, host_keys=policy))
    assert executor.run("true", timeout=20).rc == 0
    assert known_hosts.read_text() == before


def test_an_unknown_key_is_refused_and_told_how_to_record(
    server: Server, open_executor: Open, known_hosts: Path
) -> None:
    add(known_hosts)
    with server.watch() as traffic, pytest.raises(HostKeyError) as caught:
        open_executor(server.connection(known_hosts=known_hosts)).run("true", timeout=20)
    assert traffic.logins == 0
    text = str(caught.value)
    assert fingerprint(server.host_key) in text
    command = text[text.index("ssh-keyscan") : text.index(";", text.index("ssh-keyscan"))]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert open_executor(server.connection(known_hosts=known_hosts)).run("true", timeout=20).rc == 0


def test_accept_new_records_the_key_once_and_says_so(
    server: Server, open_executor: Open, known_hosts: Path, warnings: list[tuple[str, str]]
) -> None:
    lines = known_hosts.read_text().splitlines()
    for _ in range(2):
        executor = open_executor(server.connection(known_hosts=known_hosts, host_keys="accept-new"))
        assert executor.run("true", timeout=20).rc == 0
    assert known_hosts.read_text().splitlines() == [*lines, f"{server.name} {server.host_key}"]
    ((host, text),) = warnings
    assert host == "gpu01"
    assert fingerprint(server.host_key) in text
    strict = open_executor(server.connection(known_hosts=known_hosts))
    assert strict.run("true", timeout=20).rc == 0


def test_accept_new_makes_a_missing_file(server: Server, open_executor: Open, tmp_path: Path) -> None:
    path = tmp_path / "new/known_hosts"
    assert open_executor(server.connection(known_hosts=path, host_keys="accept-new")).run("true", timeout=20).rc == 0
    assert path.read_text() == f"{server.name} {server.host_key}\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_changed_key_is_refused(
    server: Server, open_executor: Open, known_hosts: Path, tmp_path: Path, policy: str
) -> None:
    old = sshd.keygen(tmp_path / "old_key")
    add(known_hosts, f"{server.name} {old}")
    with pytest.raises(HostKeyError, match="has changed") as caught:
        open_executor(server.connection(known_hosts=known_hosts, host_keys=policy)).run("true", timeout=20)
    text = str(caught.value)
    assert fingerprint(old) in text
    assert fingerprint(server.host_key) in text
    assert f"{known_hosts}:51" in text
    command = text[text.index("ssh-keygen -R") :]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert old not in known_hosts.read_text()


def test_a_key_of_another_kind_is_no_new_host(
    server: Server, open_executor: Open, known_hosts: Path, tmp_path: Path
) -> None:
    """Else anyone in between could show a kind of key that isn't recorded yet."""
    add(known_hosts, f"{server.name} {sshd.keygen(tmp_path / 'ecdsa_key', 'ecdsa')}")
    with pytest.raises(HostKeyError, match="has changed"):
        open_executor(server.connection(known_hosts=known_hosts, host_keys="accept-new")).run("true", timeout=20)


@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_revoked_key_is_refused(server: Server, open_executor: Open, known_hosts: Path, policy: str) -> None:
    add(known_hosts, f"{server.name} {server.host_key}", f"@revoked * {server.host_key}")
    with pytest.raises(HostKeyError, match="revoked") as caught:
        open_executor(server.connection(known_hosts=known_hosts, host_keys=policy)).run("true", timeout=20)
    assert f"{known_hosts}:52" in str(caught.value)


def test_an_unreadable_file_is_no_empty_file(server: Server, open_executor: Open, tmp_path: Path) -> None:
    with pytest.raises(HostKeyError, match="can't read"):
        open_executor(server.connection(known_hosts=tmp_path, host_keys="accept-new")).run("true", timeout=20)


CERTIFICATES = {
    "good": (("-n", "127.0.0.1,gpu01", "-V", "-1h:+1h"), ""),
    "for any name": (("-V", "-1h:+1h"), ""),
    "pattern": (("-n", "127.*", "-V", "-1h:+1h"), ""),
    "another name": (("-n", "gpu02", "-V", "-1h:+1h"), "gpu02"),
    "expired": (("-n", "127.0.0.1", "-V", "-2h:-1h"), "valid at this time"),
}


@pytest.mark.parametrize("case", list(CERTIFICATES))
def test_host_certificates(server: Server, open_executor: Open, tmp_path: Path, case: str) -> None:
    arguments, problem = CERTIFICATES[case]
    authority = sshd.keygen(tmp_path / "ca", "ecdsa")
    with sshd.running("HostCertificate {folder}/host_key-cert.pub") as certified:
        public = certified.folder / "host_key.pub"
        subprocess.run(
            ["ssh-keygen", "-q", "-s", tmp_path / "ca", "-h", "-I", "gpu01", *arguments, str(public)], check=True
        )
        known = tmp_path / "known_hosts"
        known.write_text(f"@cert-authority 127.0.0.1,*.example {authority}\n")
        executor = open_executor(certified.connection(known_hosts=known, host_keys="accept-new"))
        if not problem:
            assert executor.run("true", timeout=20).rc == 0
        else:
            with pytest.raises(HostKeyError, match=problem):
                executor.run("true", timeout=20)
        assert len(known.read_text().splitlines()) == 1
