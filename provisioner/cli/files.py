"""Files that commands leave on the controller."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_private(path: Path, text: str) -> None:
    """Write `text` atomically with mode 0600. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
