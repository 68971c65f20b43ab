"""`provision plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import planfile
from provisioner.cli.opening import opened
from provisioner.cli.options import Request, diff_option, example, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_FAILED, EXIT_PENDING
from provisioner.report import hints, json_doc
from provisioner.report import plan as plan_text
from provisioner.report.diff import Style

if TYPE_CHECKING:
    from provisioner.model.plan import Plan


@click.command(
    epilog=example(
        "provision plan inventories/prod.toml",
        "provision plan inventories/prod.toml --limit 'gpu[01-04]' --diff full",
        "provision plan inventories/prod.toml --out today.plan",
        "provision apply inventories/prod.toml --plan today.plan",
    )
)
@request_options(plans=True)
@diff_option
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Save the plan for apply --plan."
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 while any change, deferred or not, is open.")
@output_options
def plan(
    view: View,
    request: Request,
    diff_style: Style,
    out: Path | None,
    detailed_exitcode: bool,
) -> int:
    """Show what would change, and change nothing."""
    with opened(view, request) as work:
        found = work.plan(request.stage, request.invocation("plan"))
    if out is not None:
        planfile.save(found, out)
    lines = [plan_text.footer(found)]
    lines += hints.waiting((host.host, change) for host in found.hosts for change in host.deferred)
    if plan_text.tally(found).ready:
        lines.append(f"To do it: {hints.to_apply(request.invocation('plan'), str(out) if out else '')}")
    text = plan_text.render(found, diff_style, view.paint, view.verbosity > 0) + "\n".join(["", *lines]) + "\n"
    content = json_doc.plan(found, diff_style)
    return view.answer(exit_code(found, detailed_exitcode), text, saved=str(out) if out else None, **content)


def exit_code(found: Plan, detailed: bool) -> int:
    """1 when a host couldn't be read, planned, or must not be changed; 2, where asked for, when anything is open."""
    if any(host.blocked for host in found.hosts):
        return EXIT_FAILED
    return EXIT_PENDING if detailed and any(host.changes for host in found.hosts) else EXIT_DONE
