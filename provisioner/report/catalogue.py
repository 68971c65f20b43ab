"""The tasks that a playbook can name, as text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from provisioner.report.inventory import columns
from provisioner.report.paint import PLAIN, Paint


def tasks_table(tasks: Iterable[tuple[str, str]], paint: Paint = PLAIN) -> str:
    """(name, summary) as a table."""
    lines = columns([("TASK", "WHAT IT DOES"), *tasks])
    return "\n".join([paint("bold", lines[0]), *lines[1:]]) + "\n"


def task_text(name: str, docstring: str, fields: Iterable[tuple[str, str, bool]], paint: Paint = PLAIN) -> str:
    """One task: what it says of itself, then its fields as (name, kind, must be given)."""
    lines = [paint("bold", name), "", inspect.cleandoc(docstring), ""]
    rows = columns(
        [("FIELD", "KIND", ""), *((field, _kind(kind), "required" if must else "") for field, kind, must in fields)]
    )
    lines += rows if rows[1:] else ["It has no fields."]
    return "\n".join(lines) + "\n"


def _kind(annotation: str) -> str:
    """A field's type for people: `Literal['a', 'b'] | None` → `'a' or 'b'`."""
    choices = re.sub(r"Literal\[([^\]]*)\]", lambda found: found[1].replace(", ", " | "), annotation)
    return " or ".join(part for part in choices.split(" | ") if part != "None")
