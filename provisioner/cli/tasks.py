"""`provision tasks list` and `provision tasks show`."""

from __future__ import annotations

from difflib import get_close_matches

import click

from provisioner.cli.options import example, output_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, UsageError
from provisioner.report import catalogue


@click.group(epilog=example("provision tasks list", "provision tasks show file"))
def tasks() -> None:
    """Show what a playbook can ask for."""


@tasks.command(name="list", epilog=example("provision tasks list --json"))
@output_options
def list_tasks(view: View) -> int:
    """List all tasks with what they do."""
    from provisioner import api

    found = {name: summary for name, summary, _, _ in api.task_catalogue()}
    return view.answer(EXIT_DONE, catalogue.tasks_table(found.items(), view.paint), tasks=found)


@tasks.command(epilog=example("provision tasks show containerd"))
@click.argument("name")
@output_options
def show(view: View, name: str) -> int:
    """Show one task: its meaning, its fields, an example."""
    from provisioner import api

    found = {task[0]: task for task in api.task_catalogue()}
    if name not in found:
        close = get_close_matches(name, found, 1)
        raise UsageError(
            f"no task is named {name!r}",
            why=f"did you mean {close[0]!r}?" if close else "",
            remedy="`provision tasks list` shows all tasks",
        )
    _, summary, docstring, fields = found[name]
    text = catalogue.task_text(name, docstring, fields, view.paint)
    described = [{"name": field, "kind": kind, "required": required} for field, kind, required in fields]
    return view.answer(EXIT_DONE, text, name=name, summary=summary, text=docstring, fields=described)
