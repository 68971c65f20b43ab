"""The documented Python API is the one there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provisioner import api

DOCS = Path(__file__).parents[2] / "docs"


def documented() -> set[str]:
    """The names in the table at the end of docs/library.md."""
    table = (DOCS / "library.md").read_text(encoding="utf-8").partition("## All names")[2]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_all_names_are_documented_and_no_others() -> None:
    assert documented() == set(api.__all__)


def test_all_names_are_there() -> None:
    assert [name for name in api.__all__ if not hasattr(api, name)] == []


@pytest.mark.parametrize("name", ["library.md", "writing-tasks.md"])
def test_python_in_the_documents_compiles(name: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, name, "exec")
