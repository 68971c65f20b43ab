"""Names that stand for many: gpu[01-16], gpu[01-03,07], rack[1-2]-gpu[1-8]."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT = 10_000
"""Names that one expression may stand for; more is taken for a slip of the keyboard."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Member:
    """One name; `digits` is what the last pair of brackets put into it ("07"), "" without brackets."""

    name: str
    digits: str = ""


def expand(text: str) -> tuple[Member, ...]:
    """All names of an expression, in its order. Raises ValueError for an empty or malformed range."""
    found = tuple(_expand(text, Member("")))
    names = [member.name for member in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} comes twice")
    return found


def is_range(text: str) -> bool:
    """True when the text holds brackets with numbers, which `expand` understands (other brackets are globs)."""
    brackets = _BRACKETS.findall(text)
    return bool(brackets) and all(re.fullmatch(r"[\d,\- ]*", inner) for inner in brackets)


def _expand(text: str, before: Member) -> Iterator[Member]:
    match = _BRACKETS.search(text)
    if match is None:
        if "[" in text or "]" in text:
            raise ValueError("a bracket has no partner")
        yield Member(before.name + text, before.digits)
        return
    if "]" in text[: match.start()] or "[" in text[: match.start()]:
        raise ValueError("a bracket has no partner")
    for digits in _numbers(match[1]):
        yield from _expand(text[match.end() :], Member(before.name + text[: match.start()] + digits, digits))


def _numbers(inner: str) -> list[str]:
    numbers: list[str] = []
    for part in inner.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            said = (
                f"[{inner}] is empty" if not inner.strip() else f"{part.strip()!r} in [{inner}] is no number or range"
            )
            raise ValueError(f"{said}; write [01-16] or [01-03,07]")
        first, last = match[1], match[2] or match[1]
        if int(first) > int(last):
            raise ValueError(f"the range {first}-{last} is empty: {first} is above {last}")
        if first.startswith("0") and len(first) > 1 and len(first) != len(last):
            raise ValueError(f"{first} and {last} have different numbers of digits")
        if int(last) - int(first) >= LIMIT:
            raise ValueError(f"the range {first}-{last} is longer than {LIMIT}")
        width = len(first) if first.startswith("0") else 0
        numbers += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return numbers
