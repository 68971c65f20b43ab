"""Files of the controller, replaced in one step."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Give a file this content in one step: whoever reads it finds the old one or the new one, also after a crash.

    A link stays, and what it leads to is replaced. Mode, owner and group stay as far as this user may give them; a
    new file gets 0644. `private`: the file is this user's alone (0600), whatever was there, and no link is followed.

    Raises OSError: the file is as it was then. What isn't a regular file is never replaced: /dev/null would be gone for
    the whole machine, and a link where a private file belongs leads who knows where.
    """
    target = path if private else Path(os.path.realpath(path))
    try:
        old = target.lstat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "it isn't a regular file", str(path))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            if not private:
                if old is not None:
                    with suppress(PermissionError):
                        os.fchown(handle, old.st_uid, old.st_gid)
                os.fchmod(handle, stat.S_IMODE(old.st_mode) if old is not None else 0o644)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
