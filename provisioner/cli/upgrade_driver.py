"""`provision upgrade-driver`."""

from __future__ import annotations

import time
from dataclasses import replace

import click

from provisioner.cli.consent import agree
from provisioner.cli.options import Request, diff_option, example, output_options, request_options
from provisioner.cli.roll_options import Wanted, roll_options
from provisioner.cli.rolling import Rolling, rolling
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_FAILED
from provisioner.model.upgrade import RollPlan
from provisioner.report import upgrade as plan_text
from provisioner.report import upgrade_json as json_doc
from provisioner.report import upgrade_report as report_text
from provisioner.report.diff import Style
from provisioner.report.hints import Invocation, bare
from provisioner.report.printable import one_line


@click.command(
    "upgrade-driver",
    epilog=example(
        "provision upgrade-driver inventories/prod.toml --to 580.95.05 --dry-run",
        "provision upgrade-driver inventories/prod.toml --to 580.95.05 --canary gpu01",
        "provision upgrade-driver --one-at-a-time",
        "provision upgrade-driver --max-unavailable 10% --window 'Sat 02:00-06:00 Europe/Berlin'",
        "provision upgrade-driver --status",
        "provision upgrade-driver --resume",
    ),
)
@request_options(reads=False)
@roll_options
@diff_option
@output_options
def upgrade_driver(view: View, request: Request, wanted: Wanted, diff_style: Style) -> int:
    """Upgrade the driver node by node, and back where that fails.

    Shows the plan and asks. docs/upgrade.md is the runbook.
    """
    call = invocation(request, wanted)
    with rolling(view, request, wanted) as work:
        if wanted.mode == "status":
            report = work.status()
            text = report_text.status(report, call, time.time(), view.paint)
            return view.answer(report.exit_code, text, **json_doc.report(report, call))
        if wanted.mode == "abort":
            return _aborted(view, work.roller.abort(), call)
        if wanted.mode == "resume":
            _agreed_to_resume(view, work, wanted, call)
        plan = None if wanted.mode == "resume" else _agreed(view, work, wanted, call, diff_style)
        if plan is not None and not _worth(plan, wanted):
            return view.answer(_code(plan, wanted), "", plan=json_doc.plan(plan), nodes={})
        report = work.roller.resume() if plan is None else work.roller.run(plan)
    shown = {} if plan is None else {"plan": json_doc.plan(plan)}
    text = report_text.final(report, call, view.paint)
    return view.answer(report.exit_code, text, **json_doc.report(report, call), **shown)


def invocation(request: Request, wanted: Wanted) -> Invocation:
    """What follow-up commands repeat."""
    call = request.invocation("upgrade-driver")
    return replace(call, options=(*call.options, *wanted.words))


def _agreed(view: View, work: Rolling, wanted: Wanted, call: Invocation, style: Style) -> RollPlan:
    """The plan as it is to be run: shown, agreed to, packages fetched, and, where that took nodes out of it, agreed
    to again. One that isn't worth running, or is only to be shown, comes back as it was read."""
    plan = work.plan()
    view.show(plan_text.render(plan, style, view.paint))
    if not _worth(plan, wanted):
        return plan
    asking = replace(call, options=(*call.options, *_once(wanted)))
    if not wanted.yes:
        agree(work, plan_text.question(plan), asking)
    ready = work.prepare(plan)
    refused = {host: why for host, why in ready.refused.items() if host not in plan.refused}
    view.show("".join(f"{line}\n" for line in plan_text.reasons("refused", refused, view.paint)))
    if 0 < len(ready.nodes) < len(plan.nodes) and not wanted.yes:
        agree(work, plan_text.again(plan, ready), asking)
    return ready


def _agreed_to_resume(view: View, work: Rolling, wanted: Wanted, call: Invocation) -> None:
    """Nodes that weren't begun follow those in the middle: a person sees which before it goes on."""
    if wanted.yes:
        return
    found = work.status()
    view.show(report_text.status(found, call, time.time(), view.paint))
    agree(work, report_text.question(found), replace(call, options=(*call.options, "--resume")))


def _worth(plan: RollPlan, wanted: Wanted) -> bool:
    """Whether a plan is to be run. Files alone are written only where no node had to be refused."""
    return not wanted.dry_run and bool(plan.nodes or (plan.files and not plan.refused))


def _code(plan: RollPlan, wanted: Wanted) -> int:
    return EXIT_FAILED if plan.refused and not wanted.dry_run else EXIT_DONE


def _once(wanted: Wanted) -> list[str]:
    """Options that only the first command of a roll has."""
    named = (("--to", wanted.to), ("--canary", wanted.options.canary))
    return [word for option, value in named if value for word in (option, value)]


def _aborted(view: View, holder: str, call: Invocation) -> int:
    if not holder:
        return view.answer(EXIT_DONE, "No roll is at work: nobody holds the lease.\n", asked=None)
    text = (
        f"Asked {one_line(holder)} to end: no further node is begun, those at work are brought to a safe end, and the "
        f"lease is given back.\nWatch it: {bare(call).again('--status')}\n"
    )
    return view.answer(EXIT_DONE, text, asked=holder)
