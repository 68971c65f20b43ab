"""known_hosts as OpenSSH reads it."""

from __future__ import annotations

import base64
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from provisioner.transport.hostkeys import fingerprint, known_keys, remember

BLOB = b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes(32)
KEY = f"ssh-ed25519 {base64.b64encode(BLOB).decode()}"
SALT = base64.b64encode(bytes(20)).decode()
HASHED = base64.b64encode(hmac.digest(bytes(20), b"[gpu01]:2222", "sha1")).decode()


def found(tmp_path: Path, text: str, address: str = "gpu01", port: int = 22) -> list[str]:
    """The numbers and markers of the lines that speak of a server."""
    path = tmp_path / "known_hosts"
    path.write_text(text)
    return [f"{key.where.rpartition(':')[2]}{key.marker}" for key in known_keys((path,), address, port)]


@pytest.mark.parametrize(
    ("line", "address", "port", "matches"),
    [
        (f"gpu01 {KEY}", "gpu01", 22, True),
        (f"gpu01 {KEY}", "GPU01", 22, True),
        (f"GPU01,192.0.2.1\t{KEY} a comment", "gpu01", 22, True),
        (f"gpu01,192.0.2.1 {KEY}", "192.0.2.1", 22, True),
        (f"gpu01 {KEY}", "gpu01", 2222, False),
        (f"gpu01 {KEY}", "gpu011", 22, False),
        (f"[gpu01]:2222 {KEY}", "gpu01", 2222, True),
        (f"[gpu01]:2222 {KEY}", "gpu01", 22, False),
        (f"gpu?? {KEY}", "gpu01", 22, True),
        (f"gpu*,!gpu01 {KEY}", "gpu01", 22, False),
        (f"gpu*,!gpu01 {KEY}", "gpu02", 22, True),
        (f"[gpu*]:2222 {KEY}", "gpu01", 2222, True),
        (f"|1|{SALT}|{HASHED} {KEY}", "gpu01", 2222, True),
        (f"|1|{SALT}|{HASHED} {KEY}", "gpu02", 2222, False),
        (f"# gpu01 {KEY}", "gpu01", 22, False),
        ("gpu01 ssh-ed25519 not-base64!", "gpu01", 22, False),
        ("gpu01 ssh-ed25519", "gpu01", 22, False),
        (f"|1|broken {KEY}", "gpu01", 22, False),
        (f"::1 {KEY}", "::1", 22, True),
    ],
)
def test_names(tmp_path: Path, line: str, address: str, port: int, matches: bool) -> None:
    assert found(tmp_path, f"\n{line}\n", address, port) == (["2"] if matches else [])


def test_markers_and_order(tmp_path: Path) -> None:
    text = f"gpu01 {KEY}\n@cert-authority *.example,gpu01 {KEY}\nother {KEY}\n@revoked * {KEY}\ngpu* {KEY}"
    assert found(tmp_path, text) == ["1", "2@cert-authority", "4@revoked", "5"]


def test_an_authority_for_the_name_counts_on_any_port(tmp_path: Path) -> None:
    text = f"gpu01 {KEY}\n@cert-authority gpu* {KEY}\n"
    assert found(tmp_path, text, port=2222) == ["2@cert-authority"]


def test_several_files_absent_ones_too(tmp_path: Path) -> None:
    (tmp_path / "b").write_text(f"gpu01 {KEY}\n")
    assert [key.blob for key in known_keys((tmp_path / "a", tmp_path / "b"), "gpu01", 22)] == [BLOB]


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    assert found(tmp_path, f"gpu01 {KEY}\n") == ["1"]
    assert found(tmp_path, f"other {KEY}\nagain {KEY}\n") == []


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(b"caf\xe9 ssh-ed25519 AAAA\n" + f"gpu01 {KEY}\n".encode())
    assert len(known_keys((path,), "gpu01", 22)) == 1


def test_keys_of_many_threads_are_all_remembered(tmp_path: Path) -> None:
    path = tmp_path / "new/known_hosts"
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda nth: remember(path, f"gpu{nth}", 22 + nth % 2, "ssh-ed25519", BLOB), range(100)))
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(f"[gpu{n}]:23 {KEY}" if n % 2 else f"gpu{n} {KEY}" for n in range(100))


def test_a_key_is_added_after_a_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("other ssh-ed25519 AAAA")
    os.chmod(path, 0o644)
    remember(path, "gpu01", 22, "ssh-ed25519", BLOB)
    assert path.read_text() == f"other ssh-ed25519 AAAA\ngpu01 {KEY}\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_fingerprint() -> None:
    assert fingerprint(b"") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
