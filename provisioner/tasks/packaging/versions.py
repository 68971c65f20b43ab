"""Versions as dpkg and rpm write and order them, and the upstream part in them."""

from __future__ import annotations

import re
from itertools import zip_longest

DRIVER = re.compile(r"\d{3,4}\.\d{1,3}(\.\d{1,3})?$")
"""The shape of a driver's upstream version."""


def split(version: str) -> tuple[int, str, str]:
    """(epoch, upstream version, revision or release); the same cut in dpkg and rpm: at the last hyphen."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch) if epoch.isdigit() else 0, upstream, revision


def upstream(version: str) -> str:
    """The upstream part: 535.216.03 of 535.216.03-2~bpo12+1, 555.42.02 of 3:555.42.02-1.el8."""
    return split(version)[1]


def is_driver(version: str) -> bool:
    """Whether a package's version looks like that of something built from the driver."""
    return DRIVER.fullmatch(upstream(version)) is not None


def branch(version: str) -> str:
    """The driver branch: 535 of 535.216.03."""
    return version.partition(".")[0]


def deb_compare(one: str, two: str) -> int:
    """Negative, zero or positive as dpkg orders two versions (deb-version(7))."""
    first, second = split(one), split(two)
    return (first[0] - second[0]) or _deb_part(first[1], second[1]) or _deb_part(first[2], second[2])


def _deb_part(one: str, two: str) -> int:
    pairs = zip_longest(re.findall(r"(\D*)(\d*)", one), re.findall(r"(\D*)(\d*)", two), fillvalue=("", ""))
    for (words1, digits1), (words2, digits2) in pairs:
        for a, b in zip_longest(words1, words2, fillvalue=""):
            if _deb_order(a) != _deb_order(b):
                return _deb_order(a) - _deb_order(b)
        difference = int(digits1 or 0) - int(digits2 or 0)
        if difference:
            return difference
    return 0


def _deb_order(char: str) -> int:
    """A tilde sorts before the end of a part, letters before everything else."""
    if not char:
        return 0
    if char == "~":
        return -1
    return ord(char) if char.isalpha() else ord(char) + 256


def rpm_compare(one: str, two: str) -> int:
    """Negative, zero or positive as rpm orders two EVRs (rpmvercmp)."""
    first, second = split(one), split(two)
    return (first[0] - second[0]) or _rpm_part(first[1], second[1]) or _rpm_part(first[2], second[2])


def _rpm_part(one: str, two: str) -> int:
    pattern = r"\d+|[A-Za-z]+|~|\^"
    for a, b in zip_longest(re.findall(pattern, one), re.findall(pattern, two), fillvalue=""):
        if a == b:
            continue
        if "~" in (a, b):
            return -1 if a == "~" else 1
        if "^" in (a, b):
            return (1 if a == "^" else -1) if "" in (a, b) else (-1 if a == "^" else 1)
        if not a or not b:
            return 1 if a else -1
        if a.isdigit() != b.isdigit():
            return 1 if a.isdigit() else -1
        if a.isdigit():
            if int(a) != int(b):
                return int(a) - int(b)
        elif a != b:
            return 1 if a > b else -1
    return 0
