"""What was read from a host: every fact is known, absent, or unknown with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from provisioner.errors import FactUnknown

T = TypeVar("T")

RC_ABSENT = 69
"""Exit status by which a probe's script says: what I look for isn't on this host."""
RC_TIMEOUT = 75
"""Exit status by which a probe's script says: it didn't answer within its time."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """The fact was read."""

    value: T


@dataclass(frozen=True, slots=True)
class Absent:
    """What the probe looks for doesn't exist on the host; that is certain."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The fact couldn't be read; `reason` is a sentence for a person."""

    reason: str


Fact = Known[T] | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Output:
    """What one probe's script did: exit status and both streams."""

    rc: int
    stdout: bytes
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """stdout as text; bytes that aren't UTF-8 survive as surrogates and can be encoded back."""
        return self.stdout.decode("utf-8", "surrogateescape")


class Probe(Generic[T]):
    """A read-only question to a host: a POSIX sh script and a pure function over its output.

    Subclasses are frozen dataclasses. Two equal probes are one: the merged script asks only once.
    The script runs as root in a subshell with LC_ALL=C and no standard input; it may use the functions of
    the probe prelude (`absent`, `unknown REASON`, `bounded SECONDS COMMAND…`).
    """

    @property
    def key(self) -> str:
        """What names this probe in messages and in saved facts."""
        raise TypeError(f"{type(self).__name__} has no key")

    def script(self) -> str:
        """The sh script; exit status 0 known, 69 absent, anything else unknown (stderr says why)."""
        raise TypeError(f"{type(self).__name__} has no script")

    def parse(self, output: Output) -> T:
        """The value of an output with status 0. ValueError makes the fact unknown with its message."""
        raise TypeError(f"{type(self).__name__} has no parser")

    def read(self, output: Output) -> Fact[T]:
        """The fact that an output means."""
        if output.rc == RC_ABSENT:
            return Absent()
        if output.rc != 0:
            said = output.stderr.decode("utf-8", "replace").strip().splitlines()
            what = "it didn't answer in time" if output.rc == RC_TIMEOUT else f"status {output.rc}"
            return Unknown(said[-1] if said else f"{self.key}: {what}")
        try:
            return Known(self.parse(output))
        except ValueError as error:
            return Unknown(f"{self.key}: {error}")


@dataclass(frozen=True)
class Facts:
    """All facts of one host from one observation. `at` is seconds since the epoch (controller's clock)."""

    host: str
    values: Mapping[Probe[Any], Fact[Any]] = field(default_factory=dict)
    at: float = 0.0

    def fact(self, probe: Probe[T]) -> Fact[T]:
        """The three-valued fact; Unknown when the probe wasn't part of the observation."""
        return cast("Fact[T]", self.values.get(probe, Unknown(f"{probe.key} was not asked for")))

    def get(self, probe: Probe[T]) -> T | None:
        """The value, or None when absent. Raises FactUnknown when it couldn't be read."""
        fact = self.fact(probe)
        if isinstance(fact, Unknown):
            raise FactUnknown(
                f"can't tell {probe.key}", why=fact.reason, remedy="mend what keeps it from being read, then plan again"
            )
        return fact.value if isinstance(fact, Known) else None

    def need(self, probe: Probe[T]) -> T:
        """The value. Raises FactUnknown when it is absent or couldn't be read."""
        value = self.get(probe)
        if value is None:
            raise FactUnknown(f"{probe.key} is absent", why="a plan needs it", remedy="")
        return value
