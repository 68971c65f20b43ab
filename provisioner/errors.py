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
    ├── KubeError                    the cluster's API couldn't be worked with          1
    │   ├── KubectlMissing
    │   ├── ApiUnreachable           no answer, or one that may be better in a while
    │   ├── NotFound
    │   ├── Conflict                 the object has changed since it was read
    │   ├── Forbidden                a verb is missing, named
    │   ├── TooManyRequests
    │   │   └── EvictionBlocked      a disruption budget allows no eviction
    │   └── Invalid                  the API refused what was sent
    ├── LeaseError                   the cluster's upgrade lease                        1
    │   ├── LeaseHeld                another run holds it
    │   ├── LeaseLost                another run took it over
    │   └── Frozen                   somebody froze all rolls
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


class KubeError(ProvisionError):
    """The cluster's API couldn't be worked with."""


class KubectlMissing(KubeError):
    """There is no kubectl where it is to run, or its configuration can't be read."""


class ApiUnreachable(KubeError):
    """The API server gave no answer, or one that a later try may better; what a write did is unknown."""


class NotFound(KubeError):
    """There is no such object, or no such kind of object."""


class Conflict(KubeError):
    """The object has changed since it was read, or exists already."""


class Forbidden(KubeError):
    """The API refused who we are. `verb` and `resource` ("nodes", "pods/eviction") where it named them."""

    def __init__(self, what: str, *, why: str = "", remedy: str = "", verb: str = "", resource: str = "") -> None:
        super().__init__(what, why=why, remedy=remedy)
        self.verb, self.resource = verb, resource


class TooManyRequests(KubeError):
    """The API asks to come back later."""


class EvictionBlocked(TooManyRequests):
    """A disruption budget allows no eviction of the pod now."""


class Invalid(KubeError):
    """The API refused what was sent to it."""


class LeaseError(ProvisionError):
    """The lease that lets one roll at a time work on the cluster."""


class LeaseHeld(LeaseError):
    """Another run holds the lease: `who`, `run`, since when and until when, in seconds since the epoch."""

    def __init__(self, who: str, run: str, since: float, expires: float, *, why: str = "", remedy: str = "") -> None:
        super().__init__(f"another roll works on this cluster: {who}, run {run}", why=why, remedy=remedy)
        self.who, self.run, self.since, self.expires = who, run, since, expires


class LeaseLost(LeaseError):
    """Another run took the lease over; this one may change nothing more."""


class Frozen(LeaseError):
    """Somebody froze all rolls of the cluster by an annotation on the lease."""


class Interrupted(ProvisionError):
    """The run was interrupted by the user."""

    exit_code = EXIT_INTERRUPTED
