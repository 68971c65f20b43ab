"""Colour for finished text, or none. Escape sequences that we send ourselves are made here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Paint:
    """Puts a style around text when `on`."""

    on: bool = False

    def __call__(self, style: str, text: str) -> str:
        """`style` is one or more of bold, dim, red, green, yellow, magenta, cyan, separated by spaces."""
        if not self.on or not text:
            return text
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"


PLAIN = Paint(False)

SHOW_CURSOR = b"\x1b[?25h"
"""Ends the hiding of the cursor by a live view that had no chance to end itself."""

KIND_STYLE = {"+": "green", "~": "yellow", "-": "red", ">": "cyan", "…": "dim"}
"""Style of a change's symbol (`Kind.value`, or … for deferred)."""

STATUS_STYLE = {
    "ok": "green",
    "changed": "yellow",
    "failed": "bold red",
    "refused": "red",
    "unreachable": "bold red",
    "stopped": "magenta",
}
"""Style of a host's status (`Status.value`)."""

PHASE_STYLE = {"done": "green", "failed": "bold red", "rolled-back": "bold red", "broken": "bold red"}
"""Style of a phase in which a node of a roll ended (`Phase.value`)."""
