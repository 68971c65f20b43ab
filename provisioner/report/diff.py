"""What a change does to a text, as a unified diff."""

from __future__ import annotations

import difflib
from typing import Literal

from provisioner.report.names import counted
from provisioner.report.paint import Paint
from provisioner.report.printable import printable

Style = Literal["full", "compact", "none"]

COMPACT_LINES = 12
"""Lines of one diff that `compact` shows."""

_STYLE = {"+": "green", "-": "red", "@": "cyan"}


def unified(before: str | None, after: str | None, context: int = 3) -> list[str]:
    """The lines of a unified diff without its two header lines; [] when nothing is to compare or nothing differs.

    None stands for "there is no file". Only a line feed ends a line here: other line ends are content and show.
    """
    if before is None and after is None:
        return []
    old, new = _lines(before), _lines(after)
    if old == new:
        return []
    lines = difflib.unified_diff(old, new, n=context, lineterm="")
    return [printable(line) for line in list(lines)[2:]]


def shown(before: str | None, after: str | None, style: Style, paint: Paint) -> list[str]:
    """The diff's lines in colour, as much of them as `style` allows, with a word on what was left out."""
    if style == "none":
        return []
    lines = unified(before, after, 3 if style == "full" else 1)
    left_out = len(lines) - COMPACT_LINES
    if style == "compact" and left_out > 1:
        lines = lines[:COMPACT_LINES]
    else:
        left_out = 0
    painted = [paint(_STYLE[line[0]], line) if line[:1] in _STYLE else line for line in lines]
    if left_out:
        painted.append(paint("dim", f"… {counted(left_out, 'more line')}: --diff full"))
    return painted


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]
