"""Files and folders in the cache that are made once, whoever wants them first."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def made(target: Path, make: Callable[[Path], None]) -> Path:
    """The file ``target``, which ``make`` writes under another name where it is missing.

    Of several processes at once, one makes it and the others wait: a disk that others lie on must never be replaced.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with held(target.with_suffix(".lock")):
        if not target.exists():
            partial.unlink(missing_ok=True)
            make(partial)
            partial.rename(target)
    return target


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Only one process at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``folder`` at the end; thrown away where another process was faster."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", suffix=".partial", dir=folder.parent))
    try:
        partial.chmod(0o755)
        yield partial
        if not folder.exists():
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
