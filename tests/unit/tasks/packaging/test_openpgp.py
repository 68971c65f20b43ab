"""Fingerprints are those that gpg prints."""

from __future__ import annotations

import base64

import pytest

from provisioner.tasks.packaging.openpgp import fingerprints
from tests.unit.tasks.keys import FINGERPRINT, KEY


def armoured(data: bytes) -> str:
    body = base64.b64encode(data).decode()
    return (
        f"-----BEGIN PGP PUBLIC KEY BLOCK-----\nComment: made by hand\n\n{body}\n-----END PGP PUBLIC KEY BLOCK-----\n"
    )


def test_gpgs_own_answer() -> None:
    assert fingerprints(KEY) == (FINGERPRINT,)
    assert fingerprints("a comment before\n" + KEY.replace("\n", "\r\n") + "\n" + KEY) == (FINGERPRINT, FINGERPRINT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no line"),
        (KEY.replace("PUBLIC", "PRIVATE"), "there is no line"),
        (KEY.replace("mDME", "mD!E"), "armour is damaged"),
        (armoured(b"\x98\x33\x04short"), "breaks off"),
        (armoured(b"\x98\x02\x06\x00"), "a key of version 6"),
        (armoured(b"\x13"), "packets are damaged"),
        (armoured(b"\xb4\x01x"), "holds no public key"),
    ],
)
def test_what_is_no_key_is_an_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fingerprints(text)


def test_long_packets_of_both_formats() -> None:
    body = b"\x04" + bytes(300)
    old, new = b"\x99" + (301).to_bytes(2, "big") + body, b"\xc6\xc0" + bytes([301 - 192]) + body
    assert fingerprints(armoured(old)) == fingerprints(armoured(new))
