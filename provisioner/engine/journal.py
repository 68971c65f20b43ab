"""A run's journal and report on the controller: one folder a run, the last run of an inventory findable."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from provisioner.errors import UsageError
from provisioner.model.event import Event
from provisioner.replacing import replace_file

DURABLE = {
    "run-started",
    "change-started",
    "change-done",
    "change-failed",
    "run-done",
    "host-rebooting",
    "roll-started",
    "phase-started",
    "phase-done",
    "phase-failed",
    "node-ended",
    "roll-done",
}
"""Events that are on disk before the run goes on."""


def state_folder(inventory: Path) -> Path:
    """Where runs of this inventory are kept: $PROVISION_STATE_DIR, else $XDG_STATE_HOME/provision, else
    ~/.local/state/provision; below it one folder an inventory."""
    root = os.environ.get("PROVISION_STATE_DIR")
    if not root:
        root = str(Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "provision")
    resolved = inventory.resolve()
    return Path(root) / f"{resolved.stem}-{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"


def new_run_id() -> str:
    """Sortable by time and unique: 20261130T164205-3f9a."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + "-" + secrets.token_hex(2)


class Journal:
    """Appends events as JSON lines; a monitor like any other. Thread-safe. Files are readable by their owner only.

    Raises UsageError where a journal can't be begun. One that can't be written later (a full disk) doesn't end a run
    that is changing hosts; `where` then says so.
    """

    def __init__(self, inventory: Path, run: str) -> None:
        self.run = run
        self.folder = state_folder(inventory) / run
        self.path = self.folder / "journal.jsonl"
        self._lock = Lock()
        self._lost = ""
        try:
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(
                f"the run's journal can't be begun: {self.path}",
                why=f"{error.strerror}; no host was changed",
                remedy="make room or mend the folder, or name another with PROVISION_STATE_DIR",
            ) from error

    @property
    def where(self) -> str:
        """The journal's path, and what keeps it from being whole."""
        return f"{self.path} (incomplete: {self._lost})" if self._lost else str(self.path)

    def __call__(self, event: Event) -> None:
        record: dict[str, Any] = {"at": round(event.at, 3), "kind": event.kind}
        record |= {
            key: value
            for key in ("host", "stage", "change", "text", "data")
            if (value := getattr(event, key)) not in ("", {})
        }
        line = json.dumps(record, ensure_ascii=True, default=str) + "\n"
        with self._lock, self._noting():
            os.write(self._file, line.encode())
            if event.kind in DURABLE:
                os.fsync(self._file)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._lost = self._lost or error.strerror or str(error)

    def finish(self, report: dict[str, Any]) -> None:
        """Write the report and make this the inventory's last run."""
        with self._noting():
            text = json.dumps(report, indent=2, ensure_ascii=False, default=str)
            replace_file(self.folder / "report.json", text.encode(), private=True)
            replace_file(self.folder.parent / "last", self.run.encode(), private=True)
        with self._noting():
            os.close(self._file)


def last_failed(inventory: Path) -> Collection[str] | None:
    """Hosts that the inventory's last run left failed, refused, unreachable or stopped; None without a last run.

    A run that was killed has a journal but no report; then every host of it that didn't end well counts.
    """
    folder = state_folder(inventory)
    runs = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    if not runs:
        return None
    report, journal = folder / runs[-1] / "report.json", folder / runs[-1] / "journal.jsonl"
    if report.exists():
        hosts = json.loads(report.read_text(encoding="utf-8"))["hosts"]
        return [name for name, host in hosts.items() if host["status"] not in ("ok", "changed")]
    seen: dict[str, bool] = {}
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the line that was being written when the run was killed
        if host := record.get("host"):
            seen[host] = record["kind"] == "host-done"
    return [host for host, well in seen.items() if not well]
