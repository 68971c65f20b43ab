"""The one way a value enters a shell script.

Every path, name or value that becomes part of a script for a host goes through `quote` or `words`;
nothing else in the project builds shell words.
"""

import shlex
from collections.abc import Iterable


def quote(value: str) -> str:
    """One POSIX shell word that means exactly `value`. Raises ValueError for a NUL, which no word can hold."""
    if "\0" in value:
        raise ValueError("a shell word can't hold a NUL character")
    return shlex.quote(value)


def words(values: Iterable[str]) -> str:
    """Several values as shell words, separated by spaces."""
    return " ".join(quote(value) for value in values)
