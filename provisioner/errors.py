"""What can go wrong, as one tree, and the exit code each ends in.

    ProvisionError
    ├── UsageError                   the command line was wrong                        64
    ├── ConfigError                  inventory, playbook, lock, template or variable    1
    │   ├── InventoryError
    │   ├── PlaybookError
    │   ├── TemplateError
    │   └── LockError
    ├── TransportError               the host couldn't be worked with                   1
    │   ├── Unreachable
    │   ├── HostKeyError
    │   ├── AuthenticationError
    │   ├── SudoError
    │   └── Disconnected             the connection ended in the middle of a script
    ├── FactUnknown                  a plan needs what couldn't be read                 1
    ├── HostLocked                   another run works on the host                      1
    ├── PlanMoved                    a saved plan no longer fits                        1
    └── Interrupted                  Ctrl-C                                           130

Every error says what happened, why, and what to do, in that order.
"""

from pathlib import Path

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_PENDING = 2
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130


class ProvisionError(Exception):
    """`what` happened, `why`, and what to do about it (`remedy`); the last two may be empty."""

    exit_code = EXIT_FAILED

    def __init__(self, what: str, *, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.remedy = what, why, remedy

    def __str__(self) -> str:
        return "\n  ".join(part for part in (self.what, self.why, self.remedy) if part)


class UsageError(ProvisionError):
    """The command line was wrong."""

    exit_code = EXIT_USAGE


class ConfigError(ProvisionError):
    """Something a person wrote is wrong; `file`, `line` and `column` (both from 1) say where, if known."""

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        remedy: str = "",
        file: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {what}" if place else what, why=why, remedy=remedy)
        self.file, self.line, self.column = file, line, column


class InventoryError(ConfigError):
    """The inventory is wrong."""


class PlaybookError(ConfigError):
    """The playbook, or a task's table in it, is wrong."""


class TemplateError(ConfigError):
    """A template doesn't parse or doesn't render."""


class LockError(ConfigError):
    """The lock is missing, unreadable, or doesn't cover what is asked for."""


class TransportError(ProvisionError):
    """The host couldn't be worked with."""


class Unreachable(TransportError):
    """No connection: name, address, port, network or jump host."""


class HostKeyError(TransportError):
    """The host's key is unknown, has changed, or was revoked."""


class AuthenticationError(TransportError):
    """The host refused the user or the key."""


class SudoError(TransportError):
    """sudo is missing, not allowed, or its password was wrong."""


class Disconnected(TransportError):
    """The connection ended before the script's result arrived; what the host did is unknown."""


class FactUnknown(ProvisionError):
    """A plan needs a fact that couldn't be read."""


class HostLocked(ProvisionError):
    """Another run works on the host."""


class PlanMoved(ProvisionError):
    """A saved plan no longer fits the host or the inventory."""


class Interrupted(ProvisionError):
    """The run was interrupted by the user."""

    exit_code = EXIT_INTERRUPTED
