"""Secrets enter a script at the last moment and leave a host's output at the first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from provisioner.model.inventory import Secret


class Secrets:
    """All secrets of a run, resolved."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        # The secrets of hosts that aren't selected are never read. The longest first: one may contain another.
        self._secrets = sorted((secret for secret in secrets if secret.value), key=lambda secret: -len(secret.value))

    def reveal(self, text: str) -> str:
        """References replaced by values, as they are: for the content of a file that is about to be sent."""
        for secret in self._secrets:
            text = text.replace(secret.reference, secret.value)
        return text

    def reveal_in_script(self, text: str) -> str:
        """References in an sh script replaced by values. Every value entered the script through `quote`, so a
        reference stands inside single quotes, and the value must not end them."""
        for secret in self._secrets:
            text = text.replace(secret.reference, secret.value.replace("'", "'\"'\"'"))
        return text

    def mask(self, output: bytes) -> bytes:
        """Values replaced by references: for everything that comes from a host."""
        for secret in self._secrets:
            output = output.replace(secret.value.encode(), secret.reference.encode())
        return output

    def hashes(self, salt: str) -> dict[str, str]:
        """Name → slow salted hash, by which a saved plan notices that a secret has changed."""
        return {
            secret.name: hashlib.scrypt(secret.value.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()[:32]
            for secret in self._secrets
        }
