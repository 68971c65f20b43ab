"""Which transport a host is worked with: SSH by the inventory's settings, or this machine."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from provisioner.errors import InventoryError
from provisioner.model.inventory import Connection, Host, Inventory
from provisioner.transport.executor import Connector, Executor
from provisioner.transport.local import LocalExecutor

if TYPE_CHECKING:
    from provisioner.transport.link import Hop

Warn = Callable[[str, str], None]
"""(host, text): something a person should know, such as a host key accepted for the first time."""

_JUMP = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<address>\[[0-9A-Fa-f:.%\w]+\]|[^:@\s]+)(?::(?P<port>\d{1,5}))?")


def connector(inventory: Inventory, *, local: bool = False, warn: Warn = lambda host, text: None) -> Connector:
    """What makes executors for the hosts of `inventory`: for this machine if `local`, else over SSH.

    Hosts behind the same jump host share one connection to it. Making an executor doesn't connect. An executor's
    constructor raises InventoryError for a jump host that leads in a circle or can't be read.
    """
    return LocalExecutor if local else _SshConnector(inventory, warn)


class _SshConnector:
    def __init__(self, inventory: Inventory, warn: Warn) -> None:
        self._hosts = {host.name: host for host in inventory.hosts}
        self._file = inventory.path
        self._warn = warn
        self._hops: dict[Connection, Hop] = {}
        self._lock = threading.Lock()

    def __call__(self, host: Host) -> Executor:
        # Only here is SSH needed, and its libraries take longer to import than a whole `--help`.
        from provisioner.transport.ssh import SshExecutor

        with self._lock:
            through = self._hop(host, (host.name,))
        return SshExecutor(host, through=through, warn=functools.partial(self._warn, host.name))

    def _hop(self, host: Host, path: tuple[str, ...]) -> Hop | None:
        from provisioner.transport.link import Hop

        jump = host.connection.jump
        if jump is None:
            return None
        if jump in path:
            raise InventoryError(
                f"the jump hosts of {path[0]} lead in a circle: {' → '.join((*path, jump))}",
                remedy="take `jump` away from one of them",
                file=self._file,
            )
        named = self._hosts.get(jump)
        if named is None:
            named = Host(jump, jump_address(jump, host.connection))
        if named.connection not in self._hops:
            through = self._hop(named, (*path, jump))
            warn = functools.partial(self._warn, named.name)
            self._hops[named.connection] = Hop(f"jump host {jump}", named.connection, through, warn)
        return self._hops[named.connection]


def jump_address(jump: str, user_of_it: Connection) -> Connection:
    """The connection that USER@ADDRESS:PORT means (user and port may be left out): key, host keys, agent and
    timeout are those of the host that jumps. Raises InventoryError."""
    match = _JUMP.fullmatch(jump)
    port = int(match["port"] or 22) if match else 0
    if match is None or not 0 < port < 65536:
        raise InventoryError(
            f"can't read the jump host {jump!r}",
            why="it is neither a host of this inventory nor USER@ADDRESS:PORT",
            remedy='write `jump = "bastion"` for a host of the inventory, or `jump = "admin@203.0.113.7:22"`',
        )
    address = match["address"].strip("[]")
    return replace(user_of_it, address=address, port=port, user=match["user"] or user_of_it.user, jump=None)
