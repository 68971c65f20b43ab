"""Secrets: where the inventory says they come from, and reading them when a run needs them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from provisioner.config.document import Document, dotted
from provisioner.config.positions import KeyPath
from provisioner.config.schema import describe
from provisioner.errors import InventoryError
from provisioner.model.inventory import Host, Inventory, Secret, Value

SHORTEST = 6
"""Characters. A secret is masked by replacing its text in what a host says; a shorter one would mask words."""

Ask = Callable[[str], str]
"""Asks a person for a text that isn't echoed; given the prompt."""


class SecretNames:
    """The secrets that one inventory mentions; the same name always means the same source."""

    def __init__(self, doc: Document) -> None:
        self.doc = doc
        self.found: dict[str, Secret] = {}

    def read(self, at: KeyPath, table: Mapping[str, Any]) -> Secret:
        """The secret, not yet with its value, of a table `{ secret = "NAME", from = "…" }`."""
        for key in table:
            if key not in ("secret", "from"):
                raise self.doc.problem((*at, key), f"unknown key {key!r} in a secret", why="it has: secret, from")
        name, source = table["secret"], table.get("from")
        if not isinstance(name, str) or not name or not name.isprintable() or set(name) & set("⟦⟧"):
            raise self.doc.problem((*at, "secret"), f"a secret's name must be a string, not {describe(name)}")
        kind, _, rest = source.partition(":") if isinstance(source, str) else ("", "", "")
        if source != "prompt" and (kind not in ("env", "file") or not rest):
            raise self.doc.problem(
                (*at, "from") if "from" in table else at,
                f"it isn't said where the secret {name!r} comes from",
                why=f"`from` is {describe(source)}" if "from" in table else "`from` is missing",
                remedy='from = "env:VAR", "file:PATH" or "prompt"',
            )
        if kind == "file":
            source = f"file:{path_beside(self.doc.path, rest)}"
        secret = Secret(name, "", str(source))
        known = self.found.setdefault(name, secret)
        if known.source != secret.source:
            raise self.doc.problem(
                at,
                f"the secret {name!r} has two sources",
                why=f"{known.source} and {secret.source}",
                remedy=f"give one of them another name (in {dotted(at)})",
            )
        return known


def path_beside(file: Path, text: str) -> Path:
    """A path as written in `file`: `~` is expanded, a relative one is beside the file."""
    path = Path(text).expanduser()
    return path if path.is_absolute() else file.absolute().parent / path


def resolve_secrets(inventory: Inventory, hosts: Iterable[Host] | None = None, *, ask: Ask | None = None) -> Inventory:
    """The inventory with the secrets of these hosts (None: all) read from their sources, each at most once;
    `inventory.secrets` are then exactly those.

    `ask` None: there is no terminal. Raises InventoryError when a secret can't be had.
    """
    needed = {host.name for host in (inventory.hosts if hosts is None else hosts)}
    read = _Read(inventory.path, ask)
    found = tuple(read.host(host) if host.name in needed else host for host in inventory.hosts)
    return replace(inventory, hosts=found, secrets=tuple(read.secrets.values())) if read.secrets else inventory


class _Read:
    """Hosts with their secrets read. Hosts share most of their values, so each value is looked through once."""

    def __init__(self, file: Path, ask: Ask | None) -> None:
        self.file, self.ask = file, ask
        self.secrets: dict[str, Secret] = {}
        self.seen: dict[int, tuple[Value, Value]] = {}
        """id → the value (kept alive, so that the id stays its own) and what became of it."""

    def host(self, host: Host) -> Host:
        variables = {name: self._value(value) for name, value in host.vars.items()}
        password = host.connection.sudo_password
        connection = host.connection
        if password is not None:
            connection = replace(connection, sudo_password=self._inside(password))
        return replace(host, connection=connection, vars=variables)

    def _value(self, value: Value) -> Value:
        known = self.seen.get(id(value))
        if known is None:
            known = self.seen[id(value)] = (value, self._inside(value))
        return known[1]

    def _inside(self, value: Any) -> Any:
        """The value with every secret in it read."""
        if isinstance(value, Secret):
            if value.name not in self.secrets:
                self.secrets[value.name] = value if value.value else _resolve(value, self.file, self.ask)
            return self.secrets[value.name]
        if not any(secrets_in(value)):
            return value
        if isinstance(value, Mapping):
            return {key: self._inside(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._inside(inner) for inner in value)
        return replace(value, **{field.name: self._inside(getattr(value, field.name)) for field in fields(value)})


def secrets_in(value: Any) -> Iterable[Secret]:
    """Every secret within a value: dataclasses, mappings and sequences are looked through."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from secrets_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_in(inner)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from secrets_in(getattr(value, field.name))


def _resolve(secret: Secret, file: Path, ask: Ask | None) -> Secret:
    kind, _, rest = secret.source.partition(":")
    if kind == "env":
        text = _from_environment(secret, rest, file)
    elif kind == "file":
        text = _from_file(secret, Path(rest), file)
    else:
        text = _from_prompt(secret, file, ask)
    if "\0" in text:
        raise InventoryError(f"the secret {secret.name!r} ({secret.source}) holds a NUL character", file=file)
    if len(text) < SHORTEST:
        raise InventoryError(
            f"the secret {secret.name!r} ({secret.source}) is shorter than {SHORTEST} characters",
            why="it is masked wherever its text appears, and so short a text would mask ordinary words",
            remedy="use a longer one",
            file=file,
        )
    return replace(secret, value=text)


def _from_environment(secret: Secret, variable: str, file: Path) -> str:
    text = os.environ.get(variable)
    if text is None:
        raise InventoryError(
            f"the secret {secret.name!r} isn't there",
            why=f"the environment variable {variable} isn't set",
            remedy=f"set {variable}, or change `from` of this secret in the inventory",
            file=file,
        )
    return text


def _from_file(secret: Secret, path: Path, file: Path) -> str:
    """The file's text without its last line end; only a file that nobody else can read is accepted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8", newline="") as stream:
            state = os.fstat(stream.fileno())
            mode = stat.S_IMODE(state.st_mode)
            if state.st_uid != os.geteuid() or mode not in (0o600, 0o400):
                raise InventoryError(
                    f"the file {path} of the secret {secret.name!r} isn't private",
                    why=f"its mode is {mode:04o} and its owner has the user id {state.st_uid}",
                    remedy=f"it must be yours with mode 0600: chmod 600 {path}",
                    file=file,
                )
            return stream.read().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else "it isn't UTF-8"
        raise InventoryError(
            f"the secret {secret.name!r} can't be read from {path}", why=why or str(failure), file=file
        ) from None


def _from_prompt(secret: Secret, file: Path, ask: Ask | None) -> str:
    if ask is None:
        raise InventoryError(
            f"the secret {secret.name!r} must be asked for, and there is no terminal",
            why='its `from` is "prompt"',
            remedy='for runs without a terminal: from = "env:VAR", or from = "file:PATH" (mode 0600)',
            file=file,
        )
    return ask(f"{secret.name}: ")
