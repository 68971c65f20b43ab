"""[repositories.NAME]: where packages come from, and the key that signs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provisioner.config.document import Document
from provisioner.config.positions import KeyPath
from provisioner.config.schema import SECRET, STRING, WORD, WORDS, Kind, check_table
from provisioner.config.secrets import SecretNames, path_beside
from provisioner.model.inventory import Host, Repository

_FINGERPRINT = Kind(
    "a key's full fingerprint (40 hexadecimal digits)",
    lambda value: isinstance(value, str) and _is_fingerprint(value.replace(" ", "").replace(":", "")),
)

KEYS: Mapping[str, Kind] = {
    "uri": WORD,
    "suite": WORD,
    "components": WORDS,
    "key": STRING,
    "key_file": STRING,
    "key_fingerprint": _FINGERPRINT,
    "proxy": WORD,
    "user": WORD,
    "password": SECRET,
}


def _is_fingerprint(text: str) -> bool:
    return len(text) in (40, 64) and all(char in "0123456789abcdefABCDEF" for char in text)


def read_repository(doc: Document, at: KeyPath, table: Mapping[str, Any], secrets: SecretNames) -> Repository:
    """One repository. Its key's file is read here; a missing one is an error at its line."""
    check_table(doc, at, table, KEYS)
    name = str(at[-1])
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise doc.problem(at, f"a repository can't be named {name!r}", why="the name becomes part of file names")
    for key in ("uri", "suite"):
        if key not in table:
            raise doc.problem(at, f"the repository {name!r} has no {key}", remedy=f'add {key} = "…"')
    if "key" in table and "key_file" in table:
        raise doc.problem((*at, "key_file"), f"the repository {name!r} has both key and key_file", remedy="keep one")
    password = table.get("password")
    return Repository(
        name=name,
        uri=table["uri"],
        suite=table["suite"],
        components=tuple(table.get("components", ())),
        key=_key(doc, at, path_beside(doc.path, table["key_file"])) if "key_file" in table else table.get("key", ""),
        fingerprint=table.get("key_fingerprint", "").replace(" ", "").replace(":", "").upper(),
        proxy=table.get("proxy"),
        user=table.get("user"),
        password=None if password is None else secrets.read((*at, "password"), password),
    )


def _key(doc: Document, at: KeyPath, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else "it isn't text; export it with `gpg --armor`"
        raise doc.problem((*at, "key_file"), f"the key {path} can't be read", why=why or str(failure)) from None
    if "BEGIN PGP PUBLIC KEY BLOCK" not in text:
        raise doc.problem((*at, "key_file"), f"{path} is no armoured public key", remedy="export it with `gpg --armor`")
    return text


def repositories(host: Host) -> tuple[Repository, ...]:
    """The repositories of one host, by name."""
    found = (value.value for name, value in sorted(host.vars.items()) if name.startswith("repositories."))
    return tuple(repository for repository in found if isinstance(repository, Repository))
