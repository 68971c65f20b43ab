"""[vars] tables: the site's own variables, nested as the site likes, flattened to dotted names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.config.document import Document
from provisioner.config.known import KINDS, RESERVED, TABLES
from provisioner.config.positions import KeyPath
from provisioner.config.schema import check_table, require
from provisioner.config.secrets import SecretNames
from provisioner.model.inventory import Level, Value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_known(doc: Document, at: KeyPath, table: Mapping[str, Any], level: Level) -> dict[str, Value]:
    """The well-known variables of a table such as [containerd]; `at` ends with its name."""
    keys = TABLES[str(at[-1])]
    check_table(doc, at, table, {key: known.kind for key, known in keys.items()})
    return {f"{at[-1]}.{key}": Value(value, level, doc.where((*at, key))) for key, value in table.items()}


def read_vars(
    doc: Document, at: KeyPath, table: Mapping[str, Any], level: Level, secrets: SecretNames | None = None
) -> dict[str, Value]:
    """The free variables of a [vars] table. A playbook (level PLAYBOOK, no secrets) may set well-known ones too."""
    found: dict[str, Value] = {}
    for keys, value in _leaves(doc, at, table, ()):
        here = (*at, *keys)
        name = ".".join(keys)
        if keys[0] in RESERVED:
            if level is not Level.PLAYBOOK or name not in KINDS:
                remedy = f"write it in a table [{keys[0]}]" if keys[0] in TABLES else "give it another name"
                raise doc.problem(here, f"{name} can't be set in vars", why=f"{keys[0]} is reserved", remedy=remedy)
            require(doc, here, value, KINDS[name])
        found[name] = Value(_plain(doc, here, value, secrets), level, doc.where(here))
    return found


def _leaves(
    doc: Document, at: KeyPath, table: Mapping[str, Any], before: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        keys = (*before, key)
        if not _NAME.fullmatch(key):
            raise doc.problem(
                (*at, *keys),
                f"a variable can't be named {key!r}",
                why="templates couldn't use it",
                remedy="use letters, digits and _",
            )
        if isinstance(value, dict) and "secret" not in value:
            yield from _leaves(doc, at, value, keys)
        else:
            yield keys, value


def _plain(doc: Document, at: KeyPath, value: Any, secrets: SecretNames | None) -> Any:
    """The value with secret tables, also inside arrays, made secrets."""
    if isinstance(value, dict) and "secret" in value:
        if secrets is None:
            raise doc.problem(at, "a secret can't stand in a playbook", remedy="put it into the inventory's [vars]")
        return secrets.read(at, value)
    if isinstance(value, dict):
        return {key: _plain(doc, (*at, key), inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(doc, (*at, index), inner, secrets) for index, inner in enumerate(value)]
    return value
