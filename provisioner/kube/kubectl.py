"""kubectl, on the controller or on a host of the inventory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from provisioner.errors import ApiUnreachable, KubectlMissing, TransportError
from provisioner.kube.failures import failure
from provisioner.model.inventory import Cluster
from provisioner.quoting import quote, words
from provisioner.transport.executor import Executor

_GRACE = 5.0
"""Seconds beyond `--request-timeout` in which kubectl should have ended by itself."""


class Kubectl(Protocol):
    """One command of kubectl at a time; may be used by several threads."""

    def run(self, args: Sequence[str], *, stdin: str | None = None, timeout: float = 30.0) -> str:
        """Standard output of `kubectl ARGS`. `timeout` in seconds bounds the request and the process.

        Raises the KubeError that the failure means (see provisioner.kube.failures), nothing else.
        """
        ...


class ControllerKubectl:
    """kubectl of this machine: the one beside our python, else of PATH. Without `kubeconfig`, KUBECONFIG counts."""

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        beside = Path(sys.executable).parent / "kubectl"
        found = str(beside) if os.access(beside, os.X_OK) else shutil.which("kubectl")
        if found is None:
            raise KubectlMissing(
                "there is no kubectl on this machine",
                why="provision talks to the cluster through it",
                remedy='install kubectl, or name a host that has it as kubectl_on in the inventory\'s "[cluster]"',
            )
        self._command = [found, *_where(kubeconfig, context)]

    def run(self, args: Sequence[str], *, stdin: str | None = None, timeout: float = 30.0) -> str:
        """See Kubectl.run."""
        command = [*self._command, f"--request-timeout={max(1, round(timeout))}s", *args]
        try:
            done = subprocess.run(
                command,
                input=(stdin or "").encode(),
                capture_output=True,
                timeout=timeout + _GRACE,
                start_new_session=True,  # Ctrl-C is for us: a write that is under way comes to its end
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise _silent(args, timeout) from late
        except OSError as problem:
            raise KubectlMissing("kubectl can't be started", why=str(problem)) from problem
        if done.returncode != 0:
            raise failure(_doing(args), done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")


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

    The executor is this object's own: calls of several threads wait for each other.
    """

    def __init__(self, executor: Executor, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self._executor, self._options = executor, _where(kubeconfig, context)
        self._lock = threading.Lock()

    def run(self, args: Sequence[str], *, stdin: str | None = None, timeout: float = 30.0) -> str:
        """See Kubectl.run."""
        command = words([*self._options, f"--request-timeout={max(1, round(timeout))}s", *args])
        source = "</dev/null" if stdin is None else ""
        script = f"{_FIND}{_feed(stdin)}kubectl {command} {source}\n"
        try:
            with self._lock:
                done = self._executor.run(script, timeout=timeout + _GRACE)
        except TransportError as problem:
            raise ApiUnreachable(
                f"kubectl on {self._executor.host.name} can't be reached: {_doing(args)}",
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
            raise failure(_doing(args), said)
        return done.stdout.decode(errors="replace")


def kubectl_of(cluster: Cluster, executor: Executor | None) -> Kubectl:
    """The kubectl that the inventory's [cluster] asks for; `executor` is one of its own to the `kubectl_on` host."""
    if cluster.kubectl_on is not None:
        if executor is None:
            raise ValueError("kubectl_on needs an executor")
        return HostKubectl(executor, cluster.kubeconfig, cluster.context)
    return ControllerKubectl(cluster.kubeconfig, cluster.context)


def _where(kubeconfig: Path | None, context: str | None) -> list[str]:
    chosen = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
    return chosen if context is None else [*chosen, f"--context={context}"]


def _feed(stdin: str | None) -> str:
    # printf is a builtin of the shell: no limit on an argument's length, and nothing in a list of processes.
    return "" if stdin is None else f"printf '%s' {quote(stdin)} | "


def _doing(args: Sequence[str]) -> str:
    return "kubectl " + " ".join(arg for arg in args if not arg.startswith("-"))


def _silent(args: Sequence[str], timeout: float) -> ApiUnreachable:
    return ApiUnreachable(
        f"the cluster's API doesn't answer: {_doing(args)}",
        why=f"kubectl had no answer within {timeout:.0f} seconds",
        remedy="see whether the API server is up and can be reached from where kubectl runs",
    )
