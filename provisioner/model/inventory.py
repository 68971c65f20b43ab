"""Hosts and what is wanted of them, as the inventory says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class Level(Enum):
    """Where a variable's value was set, from the weakest to the strongest."""

    PLAYBOOK = "playbook"
    GROUP = "group"
    HOST = "host"
    SET = "--set"


@dataclass(frozen=True, slots=True)
class Value:
    """A variable's value and its origin. `where` is for people: "prod.toml:14 [groups.h100.vars]"."""

    value: Any
    level: Level
    where: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's name and value. Its text in plans, facts and logs is always `reference`, never `value`.

    `source` is "env:VAR", "file:PATH" or "prompt"; `value` is "" until config/secrets read it from there.
    """

    name: str
    value: str = field(repr=False)
    source: str = field(default="", compare=False)

    @property
    def reference(self) -> str:
        """What stands for the value wherever it could be seen; replaced only in the script sent to the host."""
        return f"⟦secret:{self.name}⟧"

    def __str__(self) -> str:
        return self.reference


@dataclass(frozen=True, slots=True)
class Connection:
    """How a host is reached. `port` TCP; `timeout` seconds to connect; `jump` is another host's name or
    USER@ADDRESS:PORT. `host_keys` is "strict" or "accept-new". `become` is "sudo" or "none" (root login)."""

    address: str
    port: int = 22
    user: str | None = None
    key: Path | None = None
    known_hosts: Path | None = None
    host_keys: str = "strict"
    jump: str | None = None
    become: str = "sudo"
    sudo_password: Secret | None = None
    agent: bool = False
    timeout: float = 10.0


@dataclass(frozen=True)
class Host:
    """A machine of the inventory. `vars`: dotted name → value with origin, all four levels merged."""

    name: str
    connection: Connection
    groups: tuple[str, ...] = ()
    node: str | None = None
    vars: Mapping[str, Value] = field(default_factory=dict)

    def var(self, name: str, default: Any = None) -> Any:
        """A variable's plain value by its dotted name, e.g. "containerd.mode"."""
        found = self.vars.get(name)
        return default if found is None else found.value


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the cluster's API is reached: kubectl on the controller, or on an inventory host (`kubectl_on`)."""

    kubeconfig: Path | None = None
    context: str | None = None
    kubectl_on: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """An apt repository (or, for dnf, a baseurl). `key` is the armoured signing key, `fingerprint` its full
    fingerprint in upper-case hex without spaces; `user` and `password` are for a mirror that asks for them."""

    name: str
    uri: str
    suite: str
    components: tuple[str, ...] = ()
    key: str = ""
    fingerprint: str = ""
    proxy: str | None = None
    user: str | None = None
    password: Secret | None = None


@dataclass(frozen=True)
class Inventory:
    """A whole inventory. `digest` is the SHA-256 of what it was read from (files, `--set`, no secrets);
    `secrets` are those whose values have been read."""

    path: Path
    playbook: str
    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster: Cluster | None = None
    secrets: tuple[Secret, ...] = ()
    digest: str = ""

    def host(self, name: str) -> Host:
        """The host of that name. Raises KeyError."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    @property
    def lock_path(self) -> Path:
        """The lock beside the inventory: prod.toml → prod.lock."""
        return self.path.with_suffix(".lock")
