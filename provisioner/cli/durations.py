"""Durations as people write them: 90s, 15m, 2h, 1h30m, 1d."""

from __future__ import annotations

import re

import click

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WRITTEN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def seconds(text: str) -> float:
    """Seconds of "1h30m"; the largest unit first, "0" alone needs none. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip().lower())
    numbers = found.groups() if found else ()
    if text.strip() != "0" and not any(number is not None for number in numbers):
        raise ValueError(f"{text!r} is no duration: write it like 90s, 15m, 2h or 1h30m")
    return float(sum(int(number or 0) * unit for number, unit in zip(numbers, _UNITS.values(), strict=False)))


def option(text: str) -> float:
    """The `type` of an option that takes a duration. Raises click.BadParameter."""
    try:
        return seconds(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
