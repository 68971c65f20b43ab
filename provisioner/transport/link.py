"""One SSH connection to one server, and shared ones to jump hosts; every failure told in the project's terms."""

from __future__ import annotations

import functools
import getpass
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fabric
import paramiko

from provisioner.errors import AuthenticationError, TransportError, Unreachable
from provisioner.model.inventory import Connection
from provisioner.transport.client import Client, Credentials
from provisioner.transport.hostkeycheck import host_key_check
from provisioner.transport.sudo import closed_to_users, not_yet


def _config() -> Any:
    """A configuration for one connection: fabric writes into it, so no two may share one.

    It reads no files: what a run does must not depend on the ~/.ssh/config or fabric.yml of whoever starts it.
    """
    return fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig())


def login_user(connection: Connection) -> str:
    """The name to log in with: the inventory's, else this user's own."""
    return connection.user or getpass.getuser()


@dataclass(eq=False)
class Link:
    """`name` is for messages. `through` is a jump host. `warn` gets a line when a new host key was accepted."""

    name: str
    connection: Connection
    through: Hop | None
    warn: Callable[[str], None]
    _client: Client | None = None
    closed: bool = False

    def open(self) -> None:
        """Connect and log in. Raises Unreachable, HostKeyError, AuthenticationError; may be called once."""
        connection = self.connection
        check = host_key_check(
            connection.address,
            connection.port,
            connection.known_hosts,
            accept_new=connection.host_keys == "accept-new",
            warn=self.warn,
        )
        tunnel = functools.partial(self.through.tunnel, self) if self.through else None
        credentials = Credentials(connection.key, connection.agent)
        self._client = client = Client(check, credentials, connection.timeout, tunnel)
        seam = fabric.Connection(
            connection.address,
            user=login_user(connection),
            port=connection.port,
            config=_config(),
            gateway=False,
            forward_agent=False,
        )
        seam.client = client
        try:
            if self.closed:
                raise EOFError
            seam.open()
        except TransportError:
            raise
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise _explained(error, self, client) from error

    @property
    def transport(self) -> paramiko.Transport | None:
        """The transport while the connection stands."""
        transport = self._client.get_transport() if self._client else None
        return transport if transport is not None and transport.is_active() else None

    def close(self) -> None:
        """End the connection at once, also while another thread opens or uses it."""
        self.closed = True
        if self._client is not None:
            self._client.close()

    @property
    def place(self) -> str:
        """ADDRESS port PORT, for messages."""
        return f"{self.connection.address} port {self.connection.port}"


def _explained(error: Exception, link: Link, client: Client) -> TransportError:
    place, user = link.place, login_user(link.connection)
    if closed_to_users(client.banner):
        return not_yet(link.name, client.banner)
    if isinstance(error, paramiko.AuthenticationException):
        none = "none: the agent holds none" if link.connection.agent else "none: no default key, and no agent is asked"
        offered = ", ".join(client.tried) or none
        allowed = getattr(error, "allowed_types", None)
        why = str(error).rstrip(".") if "second factor" in str(error) else "the server refused every key offered"
        return AuthenticationError(
            f"{link.name}: {place} refused to let {user} in",
            why=f"{why} ({offered})"
            + (f"; it accepts {', '.join(allowed)}" if allowed else "")
            + (f"; it says: {client.banner}" if client.banner else ""),
            remedy=f"check `user` and `key` in the inventory, and that the public key stands in "
            f"~{user}/.ssh/authorized_keys there",
        )
    if isinstance(error, socket.gaierror):
        why = f"the name doesn't resolve: {error.strerror}"
        remedy = "check `address` in the inventory, or the resolver of this machine"
    elif isinstance(error, ConnectionRefusedError):
        why = "connection refused: nothing listens there"
        remedy = "check `address` and `port` in the inventory, and that sshd runs on the host"
    elif isinstance(error, TimeoutError):
        why = f"no answer within {link.connection.timeout:g} s"
        remedy = "check that the host is up and that no firewall stands between; `timeout` in the inventory allows more"
    elif isinstance(error, paramiko.ChannelException):
        why = f"the jump host says: {error.text}"
        remedy = "check that the host is up and that the jump host may forward to it (AllowTcpForwarding)"
    elif isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        why = str(error)
        remedy = "the host's sshd offers only algorithms that are too old; allow newer ones in its sshd_config"
    elif isinstance(error, OSError) and error.strerror:
        why = error.strerror
        remedy = "check the network between this machine and the host"
    else:
        why = str(error) or "the other side closed the connection during the handshake"
        remedy = "check that sshd answers on that port (ssh -v), and its MaxStartups when many connect at once"
    return Unreachable(f"{link.name}: can't connect to {place}", why=why, remedy=remedy)


@dataclass(eq=False)
class Hop:
    """One connection to a jump host, shared by all hosts behind it: many at once would run into its MaxStartups.

    Opened when first needed, closed when the last link through it has been closed.
    """

    name: str
    connection: Connection
    through: Hop | None
    warn: Callable[[str], None]
    _link: Link | None = None
    _users: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failure: tuple[float, TransportError] | None = None

    def tunnel(self, link: Link) -> paramiko.Channel:
        """A channel to the link's server. Raises as Link.open does; ChannelException when the server isn't reached."""
        asked = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failure[0] >= asked:
                raise self._failure[1]  # it failed while this thread waited: don't let each host wait in turn
            transport = self._link.transport if self._link else None
            if transport is None:
                self._drop()
                self._link = Link(self.name, self.connection, self.through, self.warn)
                try:
                    self._link.open()
                except TransportError as error:
                    self._failure = (time.monotonic(), error)
                    raise
                transport = self._link.transport
            self._users.add(id(link))
        if transport is None:
            raise EOFError
        target = (link.connection.address, link.connection.port)
        return transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=link.connection.timeout)

    def leave(self, link: Link) -> None:
        """That link no longer needs this connection."""
        with self._lock:
            self._users.discard(id(link))
            if not self._users:
                self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
            if self.through is not None:
                self.through.leave(link)
