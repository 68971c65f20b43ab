"""Scripts on a host over real SSH: one connection, one execution for each `run`, sudo included."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

import paramiko

from provisioner.errors import Disconnected, TransportError
from provisioner.model.inventory import Host
from provisioner.transport.exchange import UNKNOWN, Cut, NotRun, WrongPassword, converse, login_command
from provisioner.transport.executor import Completed
from provisioner.transport.link import Hop, Link, login_user
from provisioner.transport.sudo import refusal, wrong_password

_CHUNK = 1 << 20


class _ChannelPipe:
    """An SSH channel with a running command, as `converse` wants it."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)

    def write(self, data: bytes, deadline: float) -> None:
        self._channel.settimeout(_left(deadline))
        self._channel.sendall(data)

    def close_input(self) -> None:
        self._channel.shutdown_write()

    def read(self, deadline: float) -> tuple[bytes, bytes] | None:
        channel = self._channel
        while True:
            ended = channel.eof_received or channel.closed
            out = channel.recv(_CHUNK) if channel.recv_ready() else b""
            err = channel.recv_stderr(_CHUNK) if channel.recv_stderr_ready() else b""
            if out or err:
                return out, err
            if ended:
                return None
            self._poll.poll(_left(deadline) * 1000)

    def status(self) -> int | None:
        # The status follows the end of the streams at once, or never when the connection is gone.
        self._channel.status_event.wait(1.0)
        status = self._channel.exit_status
        return status if status >= 0 else None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class SshExecutor:
    """The Executor over SSH. `through` is the jump host's connection; `warn` gets lines for a person.

    After `close`, or after the connection was lost, the next `run` connects anew.
    """

    def __init__(self, host: Host, *, through: Hop | None, warn: Callable[[str], None]) -> None:
        self.host = host
        self.connections = 0
        self.execs = 0
        self._through = through
        self._warn = warn
        self._link: Link | None = None
        self._lock = threading.Lock()

    def run(self, script: str, *, timeout: float) -> Completed:
        """See Executor.run."""
        link = self._connected()
        connection = self.host.connection
        password = connection.sudo_password.value if connection.sudo_password else None
        if connection.become == "none":
            password = None
        channel = self._start(link, login_command(connection.become, password=password is not None), timeout)
        try:
            return converse(_ChannelPipe(channel), script, password=password, timeout=timeout)
        except WrongPassword:
            raise wrong_password(self.host.name, login_user(connection)) from None
        except NotRun as ended:
            raise self._not_run(link, ended) from None
        except Cut:
            lost, why = link.transport is None, _lost_why(link)  # before `_end`, after which nobody else ended it
            self._end(link)
            raise Disconnected(
                f"{self.host.name}: the connection was lost in the middle of a script"
                if lost
                else f"{self.host.name}: the shell that ran a script was killed",
                why=why if lost else "its output ended without a result",
                remedy=UNKNOWN,
            ) from None
        except TimeoutError:
            self._end(link)
            raise Disconnected(
                f"{self.host.name}: no result of a script within {timeout:g} s",
                why="it still runs, hangs, or the host no longer answers",
                remedy=UNKNOWN,
            ) from None
        finally:
            channel.close()

    def close(self) -> None:
        """See Executor.close; a `run` in another thread raises Disconnected."""
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            self._end(link)

    def _connected(self) -> Link:
        with self._lock:
            old = self._link
            if old is not None and old.transport is not None:
                return old
            self._link = link = Link(self.host.name, self.host.connection, self._through, self._warn)
        if old is not None:
            self._end(old)
        try:
            link.open()
        except BaseException as error:
            closed = self._link is not link
            self._end(link)
            if closed and isinstance(error, TransportError):
                raise self._closed() from error
            raise
        self.connections += 1
        if self._link is not link:
            self._end(link)
            raise self._closed()
        return link

    def _start(self, link: Link, line: str, timeout: float) -> paramiko.Channel:
        transport = link.transport
        try:
            if transport is None:
                raise EOFError
            channel = transport.open_session(timeout=min(timeout, 60.0))
            channel.exec_command(line)
        except (OSError, EOFError, paramiko.SSHException) as error:
            self._end(link)
            raise Disconnected(
                f"{self.host.name}: can't start a script",
                why=str(error) or "the connection was lost",
                remedy="run again; nothing of the script was executed",
            ) from error
        self.execs += 1
        return channel

    def _not_run(self, link: Link, ended: NotRun) -> TransportError:
        if link.transport is None:
            ended.status = None
        return refusal(self.host.name, login_user(self.host.connection), ended)

    def _closed(self) -> Disconnected:
        return Disconnected(f"{self.host.name}: the connection was closed", why="the run was stopped")

    def _end(self, link: Link) -> None:
        with self._lock:
            if self._link is link:
                self._link = None
        link.close()
        if self._through is not None:
            self._through.leave(link)


def _lost_why(link: Link) -> str:
    return "the host or the network ended it" if not link.closed else "the run was stopped"
