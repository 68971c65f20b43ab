"""Events as a file of JSON objects, one a line: for programs that follow a run."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path

from provisioner.model.event import Event


class EventFile:
    """Writes each event as one line and flushes it, so that a reader sees it at once. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii")
        self._writing = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Write one event; nothing after `close`."""
        text = json.dumps(asdict(event), default=str)
        with self._writing:
            if not self._file.closed:
                self._file.write(text + "\n")
                self._file.flush()

    def close(self) -> None:
        """End the file; may be called twice."""
        with self._writing:
            self._file.close()
