"""The inventory file: hosts, groups, variables with their origin, connections, cluster, secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from provisioner.config.connection import ADDRESS, SETTINGS, check_jumps, connection, fill, origins, read_settings
from provisioner.config.document import Document, dotted, read_document, suggestion
from provisioner.config.known import DEFAULTS, TABLES
from provisioner.config.overrides import read_sets
from provisioner.config.positions import KeyPath
from provisioner.config.ranges import Member, expand
from provisioner.config.repositories import read_repository
from provisioner.config.schema import STRING, TABLE, WORD, WORDS, Kind, check_table, describe
from provisioner.config.secrets import SecretNames, path_beside, resolve_secrets
from provisioner.config.uservars import read_known, read_vars
from provisioner.errors import InventoryError
from provisioner.model.inventory import Cluster, Host, Inventory, Level, Repository, Value

_SHARED: Mapping[str, Kind] = {
    "connection": TABLE,
    **dict.fromkeys(TABLES, TABLE),
    "repositories": TABLE,
    "vars": TABLE,
}
_TOP: Mapping[str, Kind] = {
    "playbook": STRING,
    "cluster": TABLE,
    "hosts": TABLE,
    "groups": TABLE,
    **_SHARED,
}
_GROUP: Mapping[str, Kind] = {"hosts": WORDS, **_SHARED}
_HOST: Mapping[str, Kind] = {"node": WORD, **ADDRESS, **SETTINGS, **_SHARED}
_CLUSTER: Mapping[str, Kind] = {"kubeconfig": STRING, "context": STRING, "kubectl_on": STRING}

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")

EVERY = "all"
"""The group of every host; its variables are the inventory's top-level tables."""


@dataclass(frozen=True)
class _Level:
    """What one table (top, group or host) says; `members` are the hosts it says it of."""

    settings: Mapping[str, Value]
    vars: Mapping[str, Value]
    members: tuple[Member, ...] = ()
    at: KeyPath = ()
    node: str | None = None
    names: frozenset[str] = field(default_factory=frozenset)


def load_inventory(
    path: Path | str,
    *,
    sets: Sequence[str] = (),
    playbook_vars: Mapping[str, Value] | None = None,
    ask: Callable[[str], str] | None = None,
    resolve: bool = True,
) -> Inventory:
    """Read and check a whole inventory.

    `sets` are `--set` options ("gpu.cards=8"). `playbook_vars` are the weakest level (`with_playbook_vars` adds
    them later). `ask` asks a person for a secret whose source is "prompt"; None where there is no terminal.
    `resolve=False` leaves all secrets unread: for listing, and for callers that select hosts first and then call
    `secrets.resolve_secrets` for those alone.
    Raises InventoryError with file, line and column; UsageError for a bad `--set`.
    """
    doc = read_document(Path(path), InventoryError)
    check_table(doc, (), doc.data, _TOP)
    secrets = SecretNames(doc)
    top = _read_level(doc, (), doc.data, Level.GROUP, secrets)
    declared = _read_hosts(doc, secrets)
    places = {member.name: each.at for each in declared for member in each.members}
    groups = {name: _read_group(doc, name, places, secrets) for name in doc.data.get("groups", {})}
    weakest = {**DEFAULTS, **(playbook_vars or {})}
    hosts = {member.name: _host(member, weakest, top, groups, each) for each in declared for member in each.members}
    check_jumps(doc, hosts, places)
    overrides = read_sets(sets, tuple(hosts.values()))
    if overrides:
        hosts = {name: replace(host, vars={**host.vars, **overrides}) for name, host in hosts.items()}
    inventory = Inventory(
        path=doc.path,
        playbook=doc.data.get("playbook", "gpu-node"),
        hosts=tuple(hosts.values()),
        groups={name: tuple(host for host in hosts if host in group.names) for name, group in groups.items()},
        cluster=_cluster(doc, hosts),
        digest=_digest(doc, sets, hosts),
    )
    return resolve_secrets(inventory, ask=ask) if resolve else inventory


def with_playbook_vars(inventory: Inventory, playbook_vars: Mapping[str, Value]) -> Inventory:
    """The inventory with a playbook's variables below everything that it says itself."""
    if not playbook_vars:
        return inventory
    hosts = []
    for host in inventory.hosts:
        said = {name: value for name, value in host.vars.items() if value is not DEFAULTS.get(name)}
        hosts.append(replace(host, vars={**DEFAULTS, **playbook_vars, **said}))
    return replace(inventory, hosts=tuple(hosts))


def _read_level(doc: Document, at: KeyPath, table: Mapping[str, Any], level: Level, secrets: SecretNames) -> _Level:
    """The tables that may stand at every level: connection, well-known variables, repositories, vars."""
    found: dict[str, Value] = {}
    for key in TABLES:
        if key in table:
            found |= read_known(doc, (*at, key), table[key], level)
    for name, inner in table.get("repositories", {}).items():
        here = (*at, "repositories", name)
        if not isinstance(inner, dict):
            raise doc.problem(here, f"{dotted(here)} must be a table, not {describe(inner)}")
        repository: Repository = read_repository(doc, here, inner, secrets)
        found[f"repositories.{name}"] = Value(repository, level, doc.where((*here, "uri")))
    if "vars" in table:
        found |= read_vars(doc, (*at, "vars"), table["vars"], level, secrets)
    settings = read_settings(doc, (*at, "connection"), table.get("connection", {}), level, secrets)
    return _Level(settings, found, at=at)


def _read_hosts(doc: Document, secrets: SecretNames) -> list[_Level]:
    declared: list[_Level] = []
    first: dict[str, KeyPath] = {}
    for text, table in doc.data.get("hosts", {}).items():
        at = ("hosts", text)
        if not isinstance(table, dict):
            raise doc.problem(at, f"{dotted(at)} must be a table, not {describe(table)}", remedy=f"[{dotted(at)}]")
        check_table(doc, at, table, _HOST)
        members = _members(doc, at, text)
        for member in members:
            if member.name in first:
                line = (doc.position(first[member.name]) or (0, 0))[0]
                raise doc.problem(
                    at,
                    f"the host {member.name!r} is declared twice",
                    why=f"first on line {line}, as {dotted(first[member.name])}",
                    remedy="take it out of one of them, or set what differs in a group",
                )
            first[member.name] = at
        level = _read_level(doc, at, table, Level.HOST, secrets)
        direct = {key: value for key, value in table.items() if key in SETTINGS or key in ADDRESS}
        twice = next((key for key in direct if key in level.settings), None)
        if twice:
            raise doc.problem((*at, "connection", twice), f"{twice} is set twice for {text}", remedy="keep one of them")
        direct_settings = read_settings(doc, at, direct, Level.HOST, secrets)
        declared.append(
            replace(level, settings={**level.settings, **direct_settings}, members=members, node=table.get("node"))
        )
    if not declared:
        raise doc.problem(
            ("hosts",), "the inventory has no hosts", remedy='add [hosts.NAME], or [hosts."gpu[01-16]"] for many'
        )
    for each in declared:
        _check_filled(doc, each)
    return declared


def _check_filled(doc: Document, each: _Level) -> None:
    """Hosts of one range must not all be reached at one address, nor share a node; nothing is left to fill in."""
    address = each.settings.get("address")
    for what, text in (("address", address.value if address else None), ("node", each.node)):
        filled = {fill(text, member) for member in each.members} if text else set()
        left = next((name for name in filled if "{" in name or "}" in name), None)
        if left:
            raise doc.problem(
                (*each.at, what),
                f"the {what} {left!r} has something left to fill in",
                remedy="there is {name}, and in a range {digits} and {number}",
            )
        if filled and len(filled) < len(each.members):
            raise doc.problem(
                (*each.at, what),
                f"{len(each.members)} hosts have the same {what} {text!r}",
                remedy="use {name}, {digits} or {number} in it, or declare the hosts one by one",
            )


def _members(doc: Document, at: KeyPath, text: str) -> tuple[Member, ...]:
    try:
        members = expand(text)
    except ValueError as error:
        raise doc.problem(at, f"{text!r} doesn't name hosts", why=str(error)) from None
    for member in members:
        if not _NAME.fullmatch(member.name) or member.name == EVERY:
            why = "all names every host" if member.name == EVERY else "names hold letters, digits, '.', '_' and '-'"
            raise doc.problem(at, f"a host can't be named {member.name!r}", why=why, remedy="address may hold the rest")
    return members


def _read_group(doc: Document, name: str, hosts: Mapping[str, KeyPath], secrets: SecretNames) -> _Level:
    at: KeyPath = ("groups", name)
    table = doc.data["groups"][name]
    if not isinstance(table, dict):
        raise doc.problem(at, f"{dotted(at)} must be a table, not {describe(table)}", remedy=f"[{dotted(at)}]")
    if name == EVERY:
        raise doc.problem(at, "the group 'all' is built in", why="it is every host; its variables are the top tables")
    if not _NAME.fullmatch(name) or name in hosts:
        why = "a host has that name" if name in hosts else "names hold letters, digits, '.', '_' and '-'"
        raise doc.problem(at, f"a group can't be named {name!r}", why=why)
    check_table(doc, at, table, _GROUP)
    names: list[str] = []
    for index, text in enumerate(table.get("hosts", ())):
        here = (*at, "hosts", index)
        for member in _members(doc, here, text):
            if member.name not in hosts:
                raise doc.problem(
                    here,
                    f"the group {name!r} names {member.name!r}, which is no host",
                    why="a group holds hosts, not groups"
                    if member.name in doc.data["groups"]
                    else suggestion(member.name, hosts),
                    remedy=f"declare it under [hosts], or take it out of {dotted(at)}",
                )
            names.append(member.name)
    return replace(_read_level(doc, at, table, Level.GROUP, secrets), names=frozenset(names))


def _host(member: Member, weakest: Mapping[str, Value], top: _Level, groups: Mapping[str, _Level], own: _Level) -> Host:
    """One host with all levels merged; of two groups the later in the file is the stronger."""
    mine = {name: group for name, group in groups.items() if member.name in group.names}
    settings: dict[str, Value] = {**top.settings}
    found: dict[str, Value] = {**weakest, **top.vars}
    for level in (*mine.values(), own):
        settings |= level.settings
        found |= level.vars
    if "address" in settings:
        written = settings["address"]
        settings["address"] = replace(written, value=fill(written.value, member))
    reached = connection(member.name, settings)
    return Host(
        name=member.name,
        connection=reached,
        groups=tuple(mine),
        node=fill(own.node, member) if own.node else None,
        vars={**found, **origins(reached, settings)},
    )


def _cluster(doc: Document, hosts: Mapping[str, Host]) -> Cluster | None:
    table = doc.data.get("cluster")
    if table is None:
        return None
    check_table(doc, ("cluster",), table, _CLUSTER)
    runner = table.get("kubectl_on")
    if runner is not None and runner not in hosts:
        raise doc.problem(
            ("cluster", "kubectl_on"),
            f"kubectl_on names {runner!r}, which is no host",
            why=suggestion(runner, hosts),
            remedy="name a host of this inventory, or leave it out to use kubectl here",
        )
    kubeconfig = table.get("kubeconfig")
    return Cluster(
        kubeconfig=None if kubeconfig is None else Path(kubeconfig) if runner else path_beside(doc.path, kubeconfig),
        context=table.get("context"),
        kubectl_on=runner,
    )


def _digest(doc: Document, sets: Sequence[str], hosts: Mapping[str, Host]) -> str:
    """SHA-256 of what the inventory was read from; secrets aren't part of it."""
    keys = {
        value.value.key
        for host in hosts.values()
        for value in host.vars.values()
        if isinstance(value.value, Repository)
    }
    hashed = hashlib.sha256()
    for part in (doc.text, *sorted(keys), *sets):
        hashed.update(f"{len(part)}:{part}".encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()
