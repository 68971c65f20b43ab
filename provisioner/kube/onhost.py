"""kubectl on a host of the inventory: one command there for each request."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from provisioner.errors import ApiUnreachable, KubectlMissing, TransportError
from provisioner.kube.failures import failure
from provisioner.kube.kubectl import Verb, chosen
from provisioner.quoting import quote, words
from provisioner.transport.executor import Executor

_GRACE = 5.0
"""Seconds beyond `--request-timeout` in which kubectl should have ended by itself."""

_FIND = r"""
PATH=$PATH:/usr/local/bin:/var/lib/rancher/rke2/bin:/snap/bin
if command -v kubectl >/dev/null 2>&1; then kubectl() { command kubectl "$@"; }
elif command -v k3s >/dev/null 2>&1; then kubectl() { k3s kubectl "$@"; }
else echo 'no kubectl on this host' >&2; exit 127; fi
if [ -z "${KUBECONFIG:-}" ] && [ ! -e "${HOME:-/root}/.kube/config" ]; then
    for f in /etc/kubernetes/admin.conf /etc/rancher/k3s/k3s.yaml /etc/rancher/rke2/rke2.yaml; do
        if [ -r "$f" ]; then KUBECONFIG=$f; export KUBECONFIG; break; fi
    done
fi
"""


class HostKubectl:
    """kubectl (or k3s' own) of an inventory host, as root there; `kubeconfig` is a path on that host.

    The executor is this object's own: requests of several threads wait for each other.
    """

    def __init__(self, executor: Executor, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self._executor, self._options = executor, chosen(kubeconfig, context)
        self._lock = threading.Lock()

    def request(self, verb: Verb, path: str, body: str | None = None, *, timeout: float = 30.0) -> str:
        """See Kubectl.request."""
        command = words([*self._options, f"--request-timeout={max(1, round(timeout))}s", *_asking(verb, path)])
        source = "</dev/null" if body is None else ""
        script = f"{_FIND}{_feed(body)}kubectl {command} {source}\n"
        try:
            with self._lock:
                done = self._executor.run(script, timeout=timeout + _GRACE)
        except TransportError as problem:
            raise ApiUnreachable(
                f"kubectl on {self._executor.host.name} can't be reached: {verb} {path}",
                why=str(problem),
                remedy=problem.remedy,
            ) from problem
        said = done.stderr.decode(errors="replace")
        if done.rc == 127 and "no kubectl on this host" in said:
            raise KubectlMissing(
                f"there is no kubectl on {self._executor.host.name}",
                why="neither kubectl nor k3s is in root's PATH there",
                remedy="name another host as kubectl_on, or leave it out to use kubectl here",
            )
        if done.rc != 0:
            raise failure(f"{verb} {path}", said)
        return done.stdout.decode(errors="replace")

    def close(self) -> None:
        """Nothing runs between two requests; the executor is closed by who made it."""


def _asking(verb: Verb, path: str) -> list[str]:
    """kubectl's arguments. By `--raw` it asks neither for the list of kinds nor for schemas; only a patch, for which
    there is no `--raw`, names its kind."""
    if verb in ("get", "delete"):
        return [verb, "--raw", path]
    if verb != "patch":
        return [verb, "--raw", path, "-f", "-"]
    url = urlsplit(path)
    collection, _, name = url.path.rpartition("/")
    manager = parse_qs(url.query).get("fieldManager", ["kubectl"])[0]
    kind = [collection.rpartition("/")[2], unquote(name)]
    return [
        "patch", *kind, "--type=merge", "--patch-file=/dev/stdin", f"--field-manager={manager}",
        "--output=json", "--show-managed-fields",
    ]  # fmt: skip


def _feed(body: str | None) -> str:
    # printf is a builtin of the shell: no limit on an argument's length, and nothing in a list of processes.
    return "" if body is None else f"printf '%s' {quote(body)} | "
