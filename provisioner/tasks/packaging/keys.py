"""Is a repository's key the one that the inventory names?"""

from __future__ import annotations

from provisioner.model.change import Refusal
from provisioner.model.inventory import Repository
from provisioner.tasks.packaging.openpgp import fingerprints


def key_refusal(repository: Repository) -> Refusal | None:
    """Why the repository's key can't be trusted, or None."""
    subject = f"repository {repository.name}"
    if not repository.key or not repository.fingerprint:
        lacking = "key" if not repository.key else "fingerprint"
        return Refusal(
            subject,
            f"repository {repository.name} has no {lacking}",
            "packages are installed only from a repository whose key was named and compared",
            f"add key_file (or key) and key_fingerprint to [repositories.{repository.name}]; "
            "`gpg --show-keys FILE` prints the fingerprint of a key file that you trust",
        )
    try:
        found = fingerprints(repository.key)
    except ValueError as error:
        return Refusal(
            subject,
            f"the key of repository {repository.name} can't be read",
            str(error),
            "give the armoured public key, as `gpg --armor --export` writes it",
        )
    wanted = repository.fingerprint.replace(" ", "").upper().removeprefix("0X")
    if found != (wanted,):
        return Refusal(
            subject,
            f"the key of repository {repository.name} isn't the one the inventory names",
            f"the key's fingerprint is {', '.join(found)}; the inventory says {wanted}",
            "find out from the repository's owner which is right before you correct either",
        )
    return None
