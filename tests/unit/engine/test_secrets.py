"""A secret's value is seen by the host's script and by nothing else."""

from __future__ import annotations

from provisioner.engine.secrets import Secrets
from provisioner.model.inventory import Secret

SECRETS = Secrets([Secret("mirror", "s3cr3t-pass"), Secret("longer", "s3cr3t-pass-and-more")])


def test_reveal_and_mask_are_each_others_inverse() -> None:
    text = "password ⟦secret:mirror⟧, other ⟦secret:longer⟧"
    sent = SECRETS.reveal(text)
    assert "s3cr3t-pass-and-more" in sent
    assert SECRETS.mask(sent.encode()).decode() == text


def test_a_hash_tells_a_change_and_not_the_secret() -> None:
    one = SECRETS.hashes("salt")
    assert one == SECRETS.hashes("salt")
    assert one != Secrets([Secret("mirror", "another-pass"), Secret("longer", "s3cr3t-pass-and-more")]).hashes("salt")
    assert "s3cr3t" not in str(one)


def test_no_representation_shows_the_value() -> None:
    secret = Secret("mirror", "s3cr3t-pass")
    assert "s3cr3t" not in repr(secret) + str(secret) + f"{secret}"
