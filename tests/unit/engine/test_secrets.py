"""A secret's value is seen by the host's script and by nothing else."""

from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.engine.secrets import Secrets
from provisioner.engine.stage import take_stage_apart
from provisioner.facts.files import FileProbe
from provisioner.facts.merge import facts_from
from provisioner.model.change import Change, Kind
from provisioner.model.inventory import Secret
from provisioner.quoting import quote
from provisioner.transport.executor import Completed

SECRETS = Secrets([Secret("mirror", "s3cr3t-pass"), Secret("longer", "s3cr3t-pass-and-more")])


def test_reveal_and_mask_are_each_others_inverse() -> None:
    text = "password ⟦secret:mirror⟧, other ⟦secret:longer⟧"
    sent = SECRETS.reveal(text)
    assert "s3cr3t-pass-and-more" in sent
    assert SECRETS.mask(sent.encode()).decode() == text


def test_a_file_that_holds_a_secret_is_read_whole() -> None:
    text = "password s3cr3t-pass-and-more\n"
    stat = f"file 600 root root {len(text)} 0 \n"
    answer = stat + text
    stdout = f"@probe 1 0 {len(answer)} 0\n{answer}@end 1\n".encode()
    probe = FileProbe("/etc/auth.conf")
    file = facts_from("gpu01", [probe], stdout, 0.0, SECRETS.mask).need(probe)
    assert file.content == "password ⟦secret:longer⟧\n"


def test_the_output_of_a_stage_is_masked_and_cut_at_the_right_places() -> None:
    printed = "logged in with s3cr3t-pass\n"
    frame = "@begin {0}\n@end {0} 0 1 0 {1}\n{2}"
    stdout = "".join(frame.format(number, len(printed), printed) for number in (1, 2)) + "@stage-done\n"
    changes = [Change(name, "", Kind.RUN, ()) for name in ("one", "two")]
    done = take_stage_apart(changes, Completed(0, stdout.encode(), b""), SECRETS, "gpu01")
    assert [outcome.output for outcome in done.outcomes] == ["logged in with ⟦secret:mirror⟧\n"] * 2
    assert done.error is None


def test_a_hash_tells_a_change_and_not_the_secret() -> None:
    one = SECRETS.hashes("salt")
    assert one == SECRETS.hashes("salt")
    assert one != Secrets([Secret("mirror", "another-pass"), Secret("longer", "s3cr3t-pass-and-more")]).hashes("salt")
    assert "s3cr3t" not in str(one)


def test_no_representation_shows_the_value() -> None:
    secret = Secret("mirror", "s3cr3t-pass")
    assert "s3cr3t" not in repr(secret) + str(secret) + f"{secret}"


@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=6))
@settings(max_examples=60, deadline=None)
def test_a_value_in_a_script_stays_data(value: str) -> None:
    secret = Secret("mirror", value)
    script = Secrets([secret]).reveal_in_script(f"printf %s {quote(f'user:{secret}')}")
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout == f"user:{value}".encode()
    assert done.stderr == b""
