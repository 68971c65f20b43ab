"""Mode and owner of a file as a playbook writes them, and what of them differs."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.errors import PlaybookError
from provisioner.facts.files import FileState
from provisioner.quoting import quote, words
from provisioner.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is wanted; None means: as it is. `mode` holds the permission bits."""

    mode: int | None = None
    owner: str | None = None
    group: str | None = None

    def differing(self, have: FileState) -> tuple[str, ...]:
        """One phrase for each attribute that differs: "mode 0600 → 0644"."""
        pairs = (
            ("mode", f"{have.mode:04o}", None if self.mode is None else f"{self.mode:04o}"),
            ("owner", have.owner, self.owner),
            ("group", have.group, self.group),
        )
        return tuple(f"{name} {now} → {want}" for name, now, want in pairs if want is not None and now != want)

    def script(self, path: str) -> str:
        """sh commands that set them on what `path` leads to."""
        lines = []
        if self.owner or self.group:
            owner = f"{self.owner or ''}:{self.group}" if self.group else str(self.owner)
            lines.append(f"chown {words([owner])} {quote(path)}")
        if self.mode is not None:
            # Five digits: with four, chmod keeps a folder's set-group-id bit.
            lines.append(f"chmod {self.mode:05o} {quote(path)}")
        return "\n".join(lines) + "\n"


def parse_mode(mode: str | int | None) -> int | None:
    """Permission bits of "0644", "644" or 0o644; None stays None. Raises PlaybookError for anything else."""
    if mode is None:
        return None
    try:
        bits = int(mode, 8) if isinstance(mode, str) else mode
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o7777:
        raise PlaybookError(
            f"{mode!r} is no file mode",
            why="a mode is octal, 0000 to 7777",
            remedy='write it as a string, mode = "0644"',
        )
    return bits


def absolute(path: str) -> str:
    """The path itself. Raises PlaybookError unless it is absolute and names one thing."""
    if not path.startswith("/") or path.endswith("/") or "\0" in path or "/../" in f"{path}/":
        raise PlaybookError(
            f"{path!r} can't be the path of a file on a host",
            why="it must start with / and may neither end with / nor hold ..",
        )
    return path


@dataclass(frozen=True, kw_only=True)
class PathTask(Task):
    """A task about one path, with the fields that all such tasks have."""

    path: str
    mode: str | int | None = None
    owner: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        absolute(self.path)
        parse_mode(self.mode)

    @property
    def attributes(self) -> Attributes:
        """Wanted mode and owner."""
        return Attributes(parse_mode(self.mode), self.owner, self.group)
