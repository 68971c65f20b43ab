"""The two protocols that the engine knows of a transport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from provisioner.model.inventory import Host


@dataclass(frozen=True, slots=True)
class Completed:
    """A script that ran to its end. `seconds` is wall time."""

    rc: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0


class Executor(Protocol):
    """One host, one connection, any number of executions one after the other (used by one thread at a time).

    `connections` and `execs` count what was really opened and executed.
    """

    host: Host
    connections: int
    execs: int

    def run(self, script: str, *, timeout: float) -> Completed:
        """Run a POSIX sh script as root with an empty standard input and wait for its end.

        The script travels over standard input, never in an argument list. It runs with PROVISION_ANCHOR set to
        the id of a process on the host that lives exactly as long as this connection. Connects first if needed.
        Raises Unreachable, HostKeyError, AuthenticationError, SudoError; Disconnected when the connection ends
        or `timeout` seconds pass before the result.
        """
        ...

    def close(self) -> None:
        """End the connection; may be called twice."""
        ...


class Connector(Protocol):
    """Makes executors. Connecting itself happens at the first `run`."""

    def __call__(self, host: Host) -> Executor:
        """An executor for that host."""
        ...
