"""Values written as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable


def toml_string(text: str) -> str:
    """A basic string on one line. JSON's escapes are TOML's, but for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_array(texts: Iterable[str]) -> str:
    """An array of strings on one line."""
    return f"[{', '.join(map(toml_string, texts))}]"


def toml_key(text: str) -> str:
    """A bare key where that is possible, else a quoted one."""
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else toml_string(text)


def toml_comment(text: str) -> str:
    """Text for behind a `#`: one line, nothing unprintable."""
    return "".join(char if char.isprintable() else " " for char in text)
