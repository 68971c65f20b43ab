"""Secrets come from a prompt, the environment or a private file, once, and only when they are needed."""

from pathlib import Path

import pytest

from provisioner.config.inventory import load_inventory
from provisioner.config.secrets import resolve_secrets
from provisioner.config.variables import namespace
from provisioner.errors import InventoryError, UsageError

TEXT = """\
[connection]
sudo_password = { secret = "sudo", from = "prompt" }
[hosts.a]
[hosts.b]
[hosts.b.vars]
token = { secret = "token", from = "env:TOKEN" }
list = ["x", { secret = "file", from = "file:secret" }]
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKEN", "t0k3n-value")
    file = tmp_path / "secret"
    file.write_text("file value\n")
    file.chmod(0o600)
    (tmp_path / "prod.toml").write_text(TEXT)
    return tmp_path / "prod.toml"


class Person:
    """Answers prompts and remembers them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        return "pass word"


def test_every_source_is_read_and_a_person_asked_once(path: Path) -> None:
    person = Person()
    inventory = load_inventory(path, ask=person)
    assert person.asked == ["sudo: "]
    first, second = inventory.hosts
    assert first.connection.sudo_password is second.connection.sudo_password
    assert {secret.name: secret.value for secret in inventory.secrets} == {
        "sudo": "pass word",
        "token": "t0k3n-value",
        "file": "file value",
    }
    assert second.var("token").value == "t0k3n-value"
    assert second.var("list")[1].value == "file value"


def test_only_what_the_selected_hosts_need_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    unread = load_inventory(path, resolve=False)
    assert unread.secrets == ()
    person = Person()
    read = resolve_secrets(unread, [unread.host("a")], ask=person)
    assert [secret.name for secret in read.secrets] == ["sudo"]
    again = resolve_secrets(read, [read.host("a")], ask=person)
    assert len(person.asked) == 1
    assert again.secrets == read.secrets
    with pytest.raises(InventoryError, match=r"(?s)'token'.*environment variable TOKEN isn't set.*set TOKEN"):
        resolve_secrets(unread, ask=person)


def test_values_show_nowhere(path: Path) -> None:
    inventory = load_inventory(path, ask=Person())
    for value in ("pass word", "t0k3n-value", "file value"):
        assert value not in repr(inventory)
        assert all(value not in str(namespace(host)) for host in inventory.hosts)
    assert namespace(inventory.host("b"))["token"] == "⟦secret:token⟧"


def test_without_a_terminal_the_alternatives_are_named(path: Path) -> None:
    with pytest.raises(InventoryError, match=r'(?s)there is no terminal.*"env:VAR".*"file:PATH"'):
        load_inventory(path, ask=None)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o700, 0o604])
def test_a_file_that_others_may_read_is_refused(path: Path, mode: int) -> None:
    (path.parent / "secret").chmod(mode)
    with pytest.raises(InventoryError, match=rf"(?s)isn't private.*{mode:04o}.*chmod 600"):
        load_inventory(path, ask=Person())


def test_a_file_that_only_its_owner_reads_is_taken(path: Path) -> None:
    (path.parent / "secret").chmod(0o400)
    assert load_inventory(path, ask=Person()).host("b").var("list")[1].value == "file value"


def test_a_missing_file_is_named(path: Path) -> None:
    (path.parent / "secret").unlink()
    with pytest.raises(InventoryError, match=r"(?s)'file' can't be read from .*secret.*No such file"):
        load_inventory(path, ask=Person())


@pytest.mark.parametrize("value", ["", "q7-x!"])
def test_a_short_secret_would_mask_words(path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TOKEN", value)
    with pytest.raises(InventoryError, match=r"'token' \(env:TOKEN\) is shorter than 6 characters") as caught:
        load_inventory(path, ask=Person())
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('sudo_password = "hunter2"', r"prod.toml:2:1: connection.sudo_password must be a secret"),
        ('sudo_password = { secret = "s" }', r"prod.toml:2:1: .*where the secret 's' comes from\n  `from` is missing"),
        ('sudo_password = { secret = "s", from = "vault:x" }', r"prod.toml:2:33: .*\n.*'vault:x'\n.*\"prompt\""),
        ('sudo_password = { secret = "s", form = "prompt" }', r"prod.toml:2:33: unknown key 'form' in a secret"),
        ('user = { secret = "s", from = "prompt" }', r"prod.toml:2:1: connection.user must be a string.*not a secret"),
    ],
)
def test_a_secret_in_the_wrong_form_or_place(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "prod.toml"
    path.write_text(f"[connection]\n{line}\n[hosts.a]\n")
    with pytest.raises(InventoryError, match=says) as caught:
        load_inventory(path)
    assert "hunter2" not in str(caught.value)


def test_one_name_has_one_source(tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    path.write_text('[hosts.a]\n[vars]\nx = { secret = "s", from = "prompt" }\ny = { secret = "s", from = "env:S" }\n')
    with pytest.raises(InventoryError, match=r"prod.toml:4:1: the secret 's' has two sources"):
        load_inventory(path)


@pytest.mark.parametrize(
    "option",
    ["token=abcdefgh", "list=[1]", "connection.sudo_password=abcdefgh", 'x={ secret = "s", from = "prompt" }'],
)
def test_the_command_line_sets_no_secret(path: Path, option: str) -> None:
    with pytest.raises(UsageError, match=r"(?s)it is a secret.*every user of this machine") as caught:
        load_inventory(path, sets=[option], resolve=False)
    assert "abcdefgh" not in str(caught.value)
