"""`provision drift`."""

from __future__ import annotations

from pathlib import Path

import click

from provisioner.cli.facts import kept
from provisioner.cli.opening import opened
from provisioner.cli.options import Request, example, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_FAILED, EXIT_PENDING
from provisioner.report import facts as facts_text
from provisioner.report import json_doc
from provisioner.report import plan as plan_text
from provisioner.report.names import counted
from provisioner.report.printable import one_line


@click.command(
    epilog=example("provision drift inventories/prod.toml", "provision drift inventories/prod.toml --since facts/today")
)
@request_options()
@click.option(
    "--since",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also compare with what `facts --save DIR` kept.",
)
@output_options
def drift(view: View, request: Request, since: Path | None) -> int:
    """Show which host differs from the others or from what is desired, and in what.

    Exit code 2 when anything differs.
    """
    before = kept(since) if since else {}
    with opened(view, request) as work:
        plan = work.plan(None, request.invocation("drift"))
        facts = work.session.facts()
    healthy = {host: values for host, values in facts.items() if "error" not in values}
    between = facts_text.between(healthy)
    moved = {host: facts_text.since(before[host], now) for host, now in healthy.items() if host in before}
    moved = {host: changes for host, changes in moved.items() if changes}
    wanting = [host for host in plan.hosts if host.changes or host.blocked]

    lines = (
        [f"between {counted(len(healthy), 'host')}:", *facts_text.differences_text(between, view.paint)]
        if between
        else []
    )
    for host, changes in moved.items():
        lines.append(f"{view.paint('bold', one_line(host))}  since {since}:")
        lines += [f"  {one_line(name)}: {then} → {now}" for name, (then, now) in changes.items()]
    if wanting:
        lines += ["from what is desired:", plan_text.render(plan, "none", view.paint).rstrip("\n")]
    if not lines:
        lines = [f"Nothing differs on {counted(len(plan.hosts), 'host')}."]
    differs = bool(between or moved or wanting)
    failed = any(host.error for host in plan.hosts)
    return view.answer(
        EXIT_FAILED if failed else EXIT_PENDING if differs else EXIT_DONE,
        "\n".join(lines) + "\n",
        between=[
            {"name": each.name, "values": [{"value": value, "hosts": list(hosts)} for value, hosts in each.values]}
            for each in between
        ],
        since={
            host: {name: {"then": then, "now": now} for name, (then, now) in changes.items()}
            for host, changes in moved.items()
        },
        **json_doc.plan(plan, "none"),
    )
