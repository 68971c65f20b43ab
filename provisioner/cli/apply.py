"""`provision apply`."""

from __future__ import annotations

from pathlib import Path

import click

from provisioner.cli import planfile
from provisioner.cli.consent import agree
from provisioner.cli.opening import opened
from provisioner.cli.options import Request, diff_option, example, output_options, request_options
from provisioner.cli.view import View
from provisioner.report import json_doc, recap
from provisioner.report import plan as plan_text
from provisioner.report.diff import Style


@click.command(
    epilog=example(
        "provision apply inventories/prod.toml",
        "provision apply inventories/prod.toml --limit gpu01 --yes",
        "provision apply inventories/prod.toml --plan today.plan",
        "provision apply inventories/prod.toml --limit failed@last",
    )
)
@request_options(plans=True)
@diff_option
@click.option(
    "--plan",
    "saved",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Do what this saved plan shows; refused when hosts or inventory have moved since.",
)
@click.option("--yes", is_flag=True, help="Don't ask. Skips the question and nothing else.")
@click.option(
    "--max-failures",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Go on disturbing hosts after this many have failed.",
)
@output_options
def apply(
    view: View,
    request: Request,
    diff_style: Style,
    saved: Path | None,
    yes: bool,
    max_failures: int,
) -> int:
    """Show what would change, ask, change it, and read again."""
    with opened(view, request) as work:
        found = planfile.load(saved) if saved else work.plan(request.stage, request.invocation("apply"))
        view.show(plan_text.render(found, diff_style, view.paint, view.verbosity > 0) + "\n")
        if plan_text.tally(found).ready and not yes:
            agree(work, plan_text.question(found), request.invocation("apply"), why=plan_text.footer(found))
        result = work.session.apply(found, max_failures=max_failures, stage=request.stage, yes=yes)
    text = recap.render(result, request.invocation("apply"), view.paint)
    return view.answer(result.exit_code, text, **json_doc.run(result, diff_style))
