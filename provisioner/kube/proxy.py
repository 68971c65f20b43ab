"""kubectl of this machine, kept running as `kubectl proxy` on a Unix socket for as long as we talk to the cluster.

A roll asks the API some hundred times a node, and a kubectl started for each request costs more than all the rest of
our work. The proxy keeps what kubectl is there for: kubeconfigs, contexts, credentials and their plugins.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from provisioner.errors import ApiUnreachable, KubectlMissing, KubeError
from provisioner.kube.failures import failure
from provisioner.kube.kubectl import Verb, chosen

_METHODS = {"get": "GET", "create": "POST", "replace": "PUT", "patch": "PATCH", "delete": "DELETE"}
_START = 15.0
"""Seconds in which `kubectl proxy` must serve."""

# The proxy ends with us however we end: the pipe on descriptor 3 closes even after `kill -9`.
_KEEPER = """
exec 3<&0
"$@" 3<&- </dev/null &
proxy=$!
(cat <&3 >/dev/null; kill "$proxy" 2>/dev/null) &
keeper=$!
exec 3<&-
wait "$proxy"; ended=$?
kill "$keeper" 2>/dev/null
exit "$ended"
"""


class KubectlProxy:
    """The kubectl beside our python, else of PATH. Without `kubeconfig`, KUBECONFIG counts.

    The socket lies in a folder that only this user can enter. Raises KubectlMissing where there is no kubectl.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        beside = Path(sys.executable).parent / "kubectl"
        found = str(beside) if os.access(beside, os.X_OK) else shutil.which("kubectl")
        if found is None:
            raise KubectlMissing(
                "there is no kubectl on this machine",
                why="provision talks to the cluster through it",
                remedy='install kubectl, or name a host that has it as kubectl_on in the inventory\'s "[cluster]"',
            )
        self._command = [found, *chosen(kubeconfig, context), "proxy"]
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def request(self, verb: Verb, path: str, body: str | None = None, *, timeout: float = 30.0) -> str:
        """See Kubectl.request."""
        doing = f"{verb} {path}"
        connection = _Connection(self._serving(), timeout)
        media = "application/merge-patch+json" if verb == "patch" else "application/json"
        headers = {"Accept": "application/json, */*", "Content-Type": media}
        try:
            connection.request(_METHODS[verb], path, None if body is None else body.encode(), headers)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        except TimeoutError as late:
            raise _silent(doing, f"no answer within {timeout:.0f} seconds") from late
        except (OSError, http.client.HTTPException) as cut:
            raise _silent(doing, f"the connection through kubectl was cut: {cut}") from cut
        finally:
            connection.close()
        if answer.status >= 400:
            raise failure(doing, _told(answer.status, answer.reason, said))
        return said

    def close(self) -> None:
        """See Kubectl.close."""
        with self._lock:
            self._end()

    def _serving(self) -> str:
        """Path of the socket; starts the proxy where none runs."""
        with self._lock:
            if self._folder is not None and self._process is not None and self._process.poll() is None:
                return _socket(self._folder.name)
            self._end()
            self._folder = tempfile.TemporaryDirectory(prefix="provision-kubectl-")
            where = _socket(self._folder.name)
            try:
                self._start(where)
            except BaseException:
                self._end()
                raise
            return where

    def _start(self, where: str) -> None:
        log = Path(where).with_name("stderr")
        with log.open("wb") as errors:
            try:
                self._process = process = subprocess.Popen(
                    ["/bin/sh", "-c", _KEEPER, "sh", *self._command, f"--unix-socket={where}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,  # Ctrl-C is for us: a write that is under way comes to its end
                )
            except OSError as problem:
                raise KubectlMissing("kubectl can't be started", why=str(problem)) from problem
        end = time.monotonic() + _START
        while not _answers(where):
            if process.poll() is not None:
                raise _no_start(log.read_text(errors="replace"))
            if time.monotonic() > end:
                raise _no_start(f"it served nothing within {_START:.0f} seconds. {log.read_text(errors='replace')}")
            time.sleep(0.01)

    def _end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket. The proxy takes requests for localhost only."""

    def __init__(self, where: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._where = where

    def connect(self) -> None:
        """See HTTPConnection."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._where)


def _socket(folder: str) -> str:
    return f"{folder}/socket"


def _answers(where: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(where)
        except OSError:
            return False
    return True


def _no_start(said: str) -> KubeError:
    return failure("kubectl proxy", said)


def _told(status: int, reason: str, said: str) -> str:
    """An error answer as kubectl would print it: the API's own Status, or what the proxy says of the way there."""
    try:
        told = json.loads(said)
    except ValueError:
        told = None
    if isinstance(told, dict) and told.get("kind") == "Status":
        named = f" ({told['reason']})" if told.get("reason") else ""
        return f"Error from server{named}: {told.get('message') or reason}"
    if status in (500, 502):
        # The proxy's own words about a connection that it couldn't make, or that broke.
        return f"Unable to connect to the server: {said.strip() or reason}"
    known = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}
    return f"Error from server ({known.get(status, 'ServiceUnavailable')}): {said.strip() or reason}"


def _silent(doing: str, why: str) -> ApiUnreachable:
    return ApiUnreachable(
        f"the cluster's API doesn't answer: {doing}",
        why=why,
        remedy="see whether the API server is up and can be reached from where kubectl runs",
    )
