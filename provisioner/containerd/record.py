"""What an edit leaves in the file as comment lines, so that a later edit or removal can give back what was there.

A comment survives every tool that keeps comments, travels with the file, and means nothing to containerd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from provisioner.containerd import literal

RUNC_ADDED = "# provision: runc was added together with nvidia and goes with it"

_DEFAULT = re.compile(r"# provision: default_runtime_name was (?:(unset)(, table added)?|(\".*\"))\s*")
_TYPE = re.compile(r"# provision: default_runtime\.runtime_type was (\".*\")\s*")


@dataclass(frozen=True)
class Default:
    """What `default_runtime_name` was before nvidia: a name, or None for unset.

    `table_added`: the table around the key was added for it.
    """

    name: str | None
    table_added: bool = False

    def comment(self) -> str:
        """The comment line, without indentation and line end."""
        if self.name is None:
            return f"# provision: default_runtime_name was unset{', table added' if self.table_added else ''}"
        return f"# provision: default_runtime_name was {literal.string(self.name)}"


def is_default(comment: str) -> bool:
    """Whether this comment records a default."""
    return _DEFAULT.fullmatch(comment) is not None


def default(comments: Iterable[str]) -> Default | None:
    """The default recorded last, or None."""
    found = None
    for comment in comments:
        match = _DEFAULT.fullmatch(comment)
        if match and match[1]:
            found = Default(None, match[2] is not None)
        elif match and (name := literal.parsed_string(match[3])) is not None:
            found = Default(name)
    return found


def type_comment(runtime_type: str) -> str:
    """The comment that records `runtime_type` of the table `default_runtime`."""
    return f"# provision: default_runtime.runtime_type was {literal.string(runtime_type)}"


def is_type(comment: str) -> bool:
    """Whether this comment records a `runtime_type` of the table `default_runtime`."""
    return _TYPE.fullmatch(comment) is not None


def runtime_type(comments: Iterable[str]) -> str | None:
    """The recorded `runtime_type` of the table `default_runtime`, or None."""
    found = [match for comment in comments if (match := _TYPE.fullmatch(comment))]
    return literal.parsed_string(found[-1][1]) if found else None
