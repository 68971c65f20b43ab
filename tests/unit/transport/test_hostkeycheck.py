"""Host certificates and algorithms, without a server."""

from __future__ import annotations

import base64
import subprocess
import time
from pathlib import Path

import pytest

from provisioner.errors import HostKeyError
from provisioner.transport import hostcert
from provisioner.transport.hostkeycheck import HostKeyCheck, host_key_check


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, kind in (("ca", "ed25519"), ("host", "ecdsa"), ("rsa", "rsa")):
        bits = ("-b", "2048") if kind == "rsa" else ()
        subprocess.run(["ssh-keygen", "-q", "-t", kind, *bits, "-N", "", "-f", str(folder / name)], check=True)
    return folder


def certificate(folder: Path, *arguments: str, key: str = "host") -> bytes:
    sign = ["ssh-keygen", "-q", "-s", f"{folder}/ca", "-I", "id", *arguments, f"{folder}/{key}.pub"]
    subprocess.run(sign, check=True)
    return blob(folder / f"{key}-cert.pub")


def blob(path: Path) -> bytes:
    return base64.b64decode(path.read_text().split()[1])


def check(folder: Path, known: str) -> HostKeyCheck:
    (folder / "known_hosts").write_text(known)
    return host_key_check("gpu01", 22, folder / "known_hosts", accept_new=False, warn=lambda text: None)


@pytest.mark.parametrize("key", ["host", "rsa", "ca"])
def test_what_a_certificate_says(folder: Path, key: str) -> None:
    read = hostcert.parse(certificate(folder, "-h", "-n", "gpu01,gpu*.example", "-V", "-1h:+1h", key=key))
    assert read.principals == ("gpu01", "gpu*.example")
    assert read.key == blob(folder / f"{key}.pub")
    assert read.authority == blob(folder / "ca.pub")
    now = time.time()
    assert [read.problem(name, now) for name in ("gpu01", "GPU02.example")] == ["", ""]
    assert "it is for gpu01" in read.problem("gpu02", now)
    assert "valid" in read.problem("gpu01", now + 7200)


def test_a_users_certificate_is_no_hosts(folder: Path) -> None:
    assert "user's" in hostcert.parse(certificate(folder, "-n", "gpu01")).problem("gpu01", time.time())


def test_cut_short_or_no_certificate(folder: Path) -> None:
    whole = certificate(folder, "-h")
    for size in (0, 3, 40, len(whole) - 1):
        with pytest.raises(ValueError, match=r".+"):
            hostcert.parse(whole[:size])


def test_a_signature_that_does_not_hold_is_refused(folder: Path) -> None:
    rules = check(folder, f"@cert-authority gpu01 {(folder / 'ca.pub').read_text()}")
    with pytest.raises(HostKeyError, match="signature is wrong"):
        rules.check(certificate(folder, "-h"), lambda authority, signed, signature: False)


def test_another_authority_vouches_for_nobody(folder: Path) -> None:
    rules = check(folder, f"@cert-authority gpu01 {(folder / 'rsa.pub').read_text()}")
    with pytest.raises(HostKeyError, match="unknown"):
        rules.check(certificate(folder, "-h"), lambda authority, signed, signature: True)


def test_a_revoked_authority_vouches_for_nobody(folder: Path) -> None:
    authority = (folder / "ca.pub").read_text()
    rules = check(folder, f"@cert-authority gpu01 {authority}@revoked * {authority}")
    with pytest.raises(HostKeyError, match="revoked"):
        rules.check(certificate(folder, "-h"), lambda authority, signed, signature: True)


def test_kinds_that_are_known_are_asked_for_first(folder: Path) -> None:
    algorithms = check(folder, f"gpu01 {(folder / 'rsa.pub').read_text()}").algorithms()
    assert algorithms[:2] == ("rsa-sha2-512", "rsa-sha2-256")
    assert "ssh-ed25519" in algorithms
    assert not any(each.endswith(hostcert.SUFFIX) for each in algorithms)


def test_certificates_are_asked_for_where_an_authority_is_known(folder: Path) -> None:
    algorithms = check(folder, f"@cert-authority * {(folder / 'ca.pub').read_text()}").algorithms()
    assert algorithms[0].endswith(hostcert.SUFFIX)
