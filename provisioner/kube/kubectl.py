"""What a kubectl does for us, wherever it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

Verb = Literal["get", "create", "replace", "patch", "delete"]
"""kubectl's words; over HTTP they are GET, POST, PUT, PATCH (a merge patch) and DELETE."""


class Kubectl(Protocol):
    """One request at a time and thread; several threads may ask at once."""

    def request(self, verb: Verb, path: str, body: str | None = None, *, timeout: float = 30.0) -> str:
        """What the API answers to `verb` at `path` (with its query); `body` is JSON. `timeout` in seconds.

        Raises the KubeError that the failure means (see provisioner.kube.failures), nothing else.
        """
        ...

    def close(self) -> None:
        """End what was started; a later request starts it again."""
        ...


def chosen(kubeconfig: Path | None, context: str | None) -> list[str]:
    """kubectl's options that name the cluster."""
    options = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
    return options if context is None else [*options, f"--context={context}"]
