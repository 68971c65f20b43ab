"""Text from hosts made safe for a terminal.

A host's output may hold escape sequences that move the cursor, set the title or hide what follows. What isn't
printable is shown as an escape (`\\x1b`), never sent. Direction marks are among it: they reorder what a reader
sees without changing what is there ("Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import unicodedata

_KEPT = {"\n", "\t"}
_NAMED = {"\r": "\\r", "\0": "\\0"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    """`text` with every control, format and surrogate character shown as an escape; newline and tab stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """`text` on one line: line ends become spaces, the rest as in `printable`."""
    return printable(" ".join(text.replace("\t", " ").splitlines()))


def output_tail(text: str, lines: int = 20) -> list[str]:
    """The last `lines` lines of a program's output with real line ends: a carriage return, as progress bars
    print it, ends a line too; empty lines at the end are dropped."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n").rstrip().split("\n")
    return [printable(line.rstrip()) for line in whole[-lines:]] if any(whole) else []


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that isn't UTF-8, kept as a surrogate
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
