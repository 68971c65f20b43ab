"""What an editor of a configuration file answers: an edit, or a refusal with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """How pods reach the nvidia handler."""

    DEFAULT = "default"
    """`default_runtime_name = "nvidia"`: every container passes through the toolkit's runtime."""
    RUNTIMECLASS = "runtimeclass"
    """The default stays; pods name `runtimeClassName: nvidia`."""


@dataclass(frozen=True)
class Edit:
    """An edited file.

    `result` is the whole file. `notes` say what was done and why, `warnings` what the reader ought
    to look at although nothing was done about it. `changed` is False where `result` is the input.
    """

    result: bytes
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    changed: bool


@dataclass(frozen=True)
class Refusal:
    """Why a file was left alone, and what to do instead."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a configuration or a running containerd. `check` is a short stable name."""

    check: str
    message: str


class Refused(Exception):
    """Raised inside an editor where it has to stop; its callers get a `Refusal`."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, remedy)
