"""Executors for tests: one with answers given beforehand, one that runs scripts with this machine's sh."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from provisioner.errors import Disconnected
from provisioner.model.inventory import Connection, Host
from provisioner.transport.executor import Completed, Connector, Executor

Answer = Completed | Exception | Callable[[str], Completed]
"""What a script gets: a result, an error to raise, or a function of the script's text."""


class FakeExecutor:
    """Answers scripts in turn with `answers`; the last one is given again when they run out.

    `scripts` holds what was run, `timeouts` how long it might have taken, `closed` how often `close` was called.
    """

    def __init__(self, host: Host | str, answers: Iterable[Answer] = (Completed(0, b"", b""),)) -> None:
        self.host = host if isinstance(host, Host) else Host(host, Connection(host))
        self.connections = 0
        self.execs = 0
        self.scripts: list[str] = []
        self.timeouts: list[float] = []
        self.closed = 0
        self._answers = list(answers)
        self._open = False

    def run(self, script: str, *, timeout: float) -> Completed:
        """See Executor.run."""
        self.connections += not self._open
        self._open = True
        self.execs += 1
        self.scripts.append(script)
        self.timeouts.append(timeout)
        answer = self._answers[min(self.execs, len(self._answers)) - 1]
        if isinstance(answer, Completed):
            return answer
        if isinstance(answer, Exception):
            self._open = False
            raise answer
        return answer(script)

    def close(self) -> None:
        """See Executor.close."""
        self.closed += 1
        self._open = False


class ShellExecutor(FakeExecutor):
    """Runs scripts for real, as whoever runs the test: `shell` is the command that reads a program as its last
    argument (("dash", "-c"), ("unshare", "-r", "sh", "-c"), …), `env` is added to this process's environment
    (a PATH with stand-ins in front)."""

    def __init__(
        self, host: Host | str, *, shell: Sequence[str] = ("sh", "-c"), env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(host, (self._execute,))
        self._shell = (*shell, 'eval "$(cat)" </dev/null')
        self._env = {**os.environ, "PROVISION_ANCHOR": str(os.getpid()), **(env or {})}

    def _execute(self, script: str) -> Completed:
        started = time.monotonic()
        sent = script.encode("utf-8", "surrogateescape")
        try:
            done = subprocess.run(
                self._shell, input=sent, capture_output=True, env=self._env, timeout=self.timeouts[-1], check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Disconnected(f"{self.host.name}: no result of a script within {error.timeout:g} s") from None
        return Completed(done.returncode, done.stdout, done.stderr, time.monotonic() - started)


def fake_connector(executors: Mapping[str, Executor]) -> Connector:
    """A Connector that hands out these executors by the host's name, and raises KeyError for another host."""

    def connect(host: Host) -> Executor:
        return executors[host.name]

    return connect
