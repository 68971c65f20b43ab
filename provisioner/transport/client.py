"""A paramiko client that is as fast as a C one and checks host keys by our own rules.

What makes the difference (shares of the time for 40 hosts in docs/transport.md): known_hosts is looked up for the
one host instead of parsed whole; TCP_NODELAY and TCP_QUICKACK take away two stalls of 40 ms, of Nagle's algorithm
at either end against delayed acknowledgements; elliptic-curve key exchange comes first; a private key is parsed
once per process; agent and default keys are asked only where they are wanted.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.auth_handler import AuthHandler

from provisioner.errors import AuthenticationError
from provisioner.transport.hostkeycheck import HostKeyCheck

# Without a handler of its own the library's warnings would land on standard error between our lines.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

KEEPALIVE = 30
"""Seconds between keepalive messages: NAT tables forget idle connections after some minutes."""
DEAD_AFTER_MS = 120_000
"""A peer that has acknowledged nothing for so long is gone."""
_KEX_FIRST = ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org", "curve25519-sha256", "ecdh-sha2-nistp256")
_CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""With these there is no message code to compare in Python, a fifth of the transport's time."""
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


class Wire:
    """A connected socket, or a jump host's channel, as paramiko's transport wants it."""

    def __init__(self, inner: socket.socket | paramiko.Channel) -> None:
        self._inner = inner
        self._closed = False
        self._receiving, self._sending = threading.Lock(), threading.Lock()
        self._quickack = None
        if isinstance(inner, socket.socket):
            _tune(inner)
            self._quickack = getattr(socket, "TCP_QUICKACK", None)

    def recv(self, size: int) -> bytes:
        with self._receiving:
            data = self._inner.recv(size)
            if self._quickack is not None and isinstance(self._inner, socket.socket):
                with contextlib.suppress(OSError):  # the kernel falls back to delayed acknowledgements by itself
                    self._inner.setsockopt(socket.IPPROTO_TCP, self._quickack, 1)
            return data

    def send(self, data: bytes) -> int:
        with self._sending:
            return self._inner.send(data)

    def settimeout(self, seconds: float) -> None:
        # The transport wakes up this often to look whether it was closed; `close` wakes it by itself.
        self._inner.settimeout(max(seconds, 0.5))

    def getpeername(self) -> object:
        return self._inner.getpeername()

    def fileno(self) -> int:
        return self._inner.fileno()

    def close(self) -> None:
        """Close at once, also while other threads wait in `recv` or `send`."""
        self._closed = True
        if isinstance(self._inner, socket.socket):
            with contextlib.suppress(OSError):
                self._inner.shutdown(socket.SHUT_RDWR)  # wakes them
            # Only then the descriptor: its number may be another connection's the moment it is free.
            with self._receiving, self._sending:
                self._inner.close()
        else:
            with contextlib.suppress(OSError, EOFError):
                self._inner.close()


def _tune(sock: socket.socket) -> None:
    options = (("TCP_NODELAY", 1), ("TCP_QUICKACK", 1), ("TCP_USER_TIMEOUT", DEAD_AFTER_MS))
    for name, value in options:
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class _Transport(paramiko.Transport):
    """paramiko's transport, asking for the host key algorithms that the check wants, in its order."""

    host_algorithms: tuple[str, ...] = ()

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        possible = type(self)._key_info  # type: ignore[attr-defined]
        return tuple(each for each in self.host_algorithms if each in possible)


class _EagerAuth(AuthHandler):
    """Sends the login right behind the request for the login service, which saves a round trip; what the server
    answers to that request is a formality. The host key has been checked by then."""

    def __init__(self, transport: paramiko.Transport) -> None:
        super().__init__(transport)
        self._once = threading.Lock()

    def proceed(self) -> None:
        """Act as if the service had been granted. Without this method's inner one, it is waited for as usual."""
        if hasattr(AuthHandler, "_parse_service_accept"):
            granted = paramiko.Message()
            granted.add_string("ssh-userauth")
            granted.rewind()
            self._parse_service_accept(granted)

    def _parse_service_accept(self, m: paramiko.Message) -> None:
        if self._once.acquire(blocking=False):  # the answer itself, later, must not log in again
            super()._parse_service_accept(m)  # type: ignore[misc]


_keys: dict[Path, paramiko.PKey] = {}
_keys_lock = threading.Lock()


def private_key(path: Path) -> paramiko.PKey:
    """The key in that file, with its certificate if PATH-cert.pub is there; parsed once per process.

    Raises AuthenticationError.
    """
    path = path.expanduser()
    with _keys_lock:
        if path not in _keys:
            try:
                _keys[path] = paramiko.PKey.from_path(path)
            except OSError as error:
                raise AuthenticationError(
                    f"can't read the private key {path}",
                    why=error.strerror or str(error),
                    remedy="set `key` in the inventory to a private key that this user can read",
                ) from error
            except (paramiko.PasswordRequiredException, TypeError) as error:
                raise AuthenticationError(
                    f"the private key {path} is encrypted",
                    why="a run has nobody to ask for its passphrase",
                    remedy=f"load it into an agent (ssh-add {path}) and set `agent = true` in the inventory",
                ) from error
            except (paramiko.SSHException, ValueError, paramiko.pkey.UnknownKeyType) as error:
                raise AuthenticationError(
                    f"can't use the private key {path}",
                    why=str(error) or type(error).__name__,
                    remedy="set `key` in the inventory to an Ed25519, ECDSA or RSA private key",
                ) from error
        return _keys[path]


@dataclass(frozen=True)
class Credentials:
    """With what to log in: `key` is a file, None for the user's default keys; `agent` also asks the SSH agent."""

    key: Path | None = None
    agent: bool = False

    def candidates(self, tried: list[str]) -> Iterator[paramiko.PKey]:
        """Keys to offer, in order; each one's name is appended to `tried`. Raises AuthenticationError."""
        if self.agent:
            agent = paramiko.Agent()
            try:
                for key in _wanted(agent.get_keys(), self.key):
                    tried.append(f"agent key {key.get_name()} {key.comment}".strip())
                    yield key
            finally:
                agent.close()
        if self.key is not None:
            tried.append(str(self.key))
            yield private_key(self.key)
        elif not self.agent:
            yield from _default_keys(tried)


def _wanted(keys: tuple[paramiko.AgentKey, ...], path: Path | None) -> list[paramiko.AgentKey]:
    """Of an agent's keys the one that `path`.pub names, if it holds that: a server counts every key as an attempt."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if path is not None:
            public = path.expanduser()
            blob = base64.b64decode(public.with_name(public.name + ".pub").read_text().split()[1])
            return [key for key in keys if key.asbytes() == blob] or list(keys)
    return list(keys)


def _default_keys(tried: list[str]) -> Iterator[paramiko.PKey]:
    """This user's default keys; one that can't be used counts only when there is no other."""
    unusable: AuthenticationError | None = None
    offered = False
    for path in (Path(name).expanduser() for name in _DEFAULT_KEYS):
        if path.exists():
            try:
                key = private_key(path)
            except AuthenticationError as error:
                unusable = unusable or error
                continue
            tried.append(str(path))
            offered = True
            yield key
    if unusable is not None and not offered:
        raise unusable


@dataclass(eq=False)
class Client(paramiko.SSHClient):
    """One connection. `tunnel` opens a channel of a jump host to the server instead of a socket. After a refused
    login `tried` names the keys that were offered, and `banner` is what the server said."""

    host_keys: HostKeyCheck
    credentials: Credentials
    timeout: float
    tunnel: Callable[[], paramiko.Channel] | None = None
    tried: list[str] = field(default_factory=list)
    banner: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._wire: Wire | None = None
        self._stopped = False

    def connect(self, hostname: str, port: int = 22, username: str | None = None, **_: object) -> None:  # type: ignore[override]
        """Connect, check the host key, log in. Raises HostKeyError, AuthenticationError, OSError, SSHException."""
        deadline = time.monotonic() + self.timeout
        inner = self.tunnel() if self.tunnel else socket.create_connection((hostname, port), self.timeout)
        self._wire = Wire(inner)
        transport = _Transport(self._wire)  # type: ignore[arg-type]
        try:
            if self._stopped:
                raise EOFError
            self._start(transport, max(1.0, deadline - time.monotonic()))
            self._login(transport, username or "")
        except BaseException:
            self._wire.close()
            transport.close()
            raise
        transport.set_keepalive(KEEPALIVE)
        self._transport = transport

    def _start(self, transport: _Transport, timeout: float) -> None:
        options = transport.get_security_options()
        options.kex = _preferring(_KEX_FIRST, options.kex)
        options.ciphers = _preferring(_CIPHERS_FIRST, options.ciphers)
        transport.host_algorithms = self.host_keys.algorithms()
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout
        transport.start_client(timeout=timeout)
        if not transport.initial_kex_done:
            raise TimeoutError(f"the SSH handshake didn't end within {timeout:g} s")
        key = transport.get_remote_server_key()
        certificate = getattr(key, "public_blob", None)
        self.host_keys.check(certificate.key_blob if certificate else key.asbytes(), _verify)

    def _login(self, transport: paramiko.Transport, username: str) -> None:
        refused: paramiko.AuthenticationException | None = None
        for key in self.credentials.candidates(self.tried):
            try:
                if not _offer(transport, username, key):
                    return
                refused = paramiko.AuthenticationException("the server wants a second factor beside the key")
            except paramiko.AuthenticationException as error:
                refused = error
                if isinstance(error, paramiko.BadAuthenticationType):
                    break
            if not transport.is_active():
                break
        # Not get_banner(): that forgets it when the server has hung up.
        self.banner = bytes(getattr(transport.auth_handler, "banner", None) or b"").decode("utf-8", "replace").strip()
        raise refused or paramiko.AuthenticationException("no key to offer")

    def close(self) -> None:
        """End the connection at once, also while another thread is still connecting or waiting."""
        self._stopped = True
        if self._wire is not None:
            self._wire.close()
        super().close()


def _offer(transport: paramiko.Transport, username: str, key: paramiko.PKey) -> list[str]:
    """Log in with a key: [] when the server is content, else what it wants besides. Raises SSHException."""
    done = threading.Event()
    transport.auth_handler = handler = _EagerAuth(transport)
    handler.auth_publickey(username, key, done)
    handler.proceed()
    return handler.wait_for_response(done)


def _preferring(first: Sequence[str], possible: Sequence[str]) -> tuple[str, ...]:
    """All that is possible, some of it first."""
    return tuple(sorted(possible, key=lambda each: first.index(each) if each in first else len(first)))


def _verify(authority: bytes, signed: bytes, signature: bytes) -> bool:
    message = paramiko.Message(authority)
    try:
        key = paramiko.PKey.from_type_string(message.get_text(), authority)
        return key.verify_ssh_sig(signed, paramiko.Message(signature))
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError):
        return False
