"""Many host names on little room: gpu01, gpu02, gpu04 → gpu[01-02,04]."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(?P<head>.*?)(?P<number>\d+)(?P<tail>\D*)", re.DOTALL)
_Shape = tuple[str, str, int]


def compress(names: Iterable[str], separator: str = ", ") -> str:
    """Names as ranges over their last number, the way an inventory writes them; with the separator "," also the
    way `--limit` reads them. Only numbers of the same width join; order is that of first mention."""
    numbers: dict[_Shape | str, list[int]] = {}
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            numbers.setdefault(name, [])
            continue
        digits = found["number"]
        numbers.setdefault((found["head"], found["tail"], len(digits)), []).append(int(digits))
    return separator.join(
        shape if isinstance(shape, str) else _range_text(shape, sorted(values)) for shape, values in numbers.items()
    )


def _range_text(shape: _Shape, values: list[int]) -> str:
    head, tail, width = shape
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs]
    return f"{head}{parts[0]}{tail}" if len(values) == 1 else f"{head}[{','.join(parts)}]{tail}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """ "1 host", "3 hosts"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def duration(seconds: float) -> str:
    """Wall time for people: "0.4s", "12s", "3m05s", "1h02m"."""
    if seconds < 1:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def spelled(seconds: float) -> str:
    """A duration that a person chose, the way an option takes it, in whole seconds: "90s", "15m", "1h30m", "0"."""
    rest, parts = round(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, length)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0"
