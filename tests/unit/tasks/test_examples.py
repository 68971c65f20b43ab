"""Every shipped task is documented with an example that works."""

from __future__ import annotations

import inspect
import tomllib
from typing import Any

import pytest

from provisioner.config.sitetasks import load_shipped_tasks
from provisioner.tasks.task import REGISTRY, build

load_shipped_tasks()
SHIPPED = sorted(name for name, cls in REGISTRY.items() if cls.__module__.startswith("provisioner."))
WORDS_OF_THE_PLAYBOOK = ("task", "when", "label")


def examples(name: str) -> list[dict[str, Any]]:
    """The tables of tasks in the indented part of a task's description."""
    text = inspect.getdoc(REGISTRY[name]) or ""
    example = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ") or not line)
    stages = tomllib.loads(example).get("stages", [])
    return [table for stage in ([stages] if isinstance(stages, dict) else stages) for table in stage["tasks"]]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_example_of_a_task_builds(name: str) -> None:
    tables = examples(name)
    assert name in [table["task"] for table in tables], f"{name} has no example of itself"
    for table in tables:
        fields = {key: value for key, value in table.items() if key not in WORDS_OF_THE_PLAYBOOK}
        # A field that is one variable takes that variable's value; in the examples such are switches.
        given = {key: True if str(value).startswith("{{ ") and str(value).count(" ") == 2 else value
                 for key, value in fields.items()}  # fmt: skip
        assert build(table["task"], given).name == table["task"]
