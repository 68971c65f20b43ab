"""`provision exec`."""

from __future__ import annotations

from dataclasses import replace

import click

from provisioner.cli.consent import agree
from provisioner.cli.opening import opened
from provisioner.cli.options import Request, example, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import UsageError
from provisioner.quoting import words
from provisioner.report import json_doc, recap
from provisioner.report.names import compress, counted
from provisioner.report.printable import one_line


@click.command(
    name="exec",
    epilog=example(
        "provision exec inventories/prod.toml --limit h100 -- nvidia-smi -L",
        "provision exec inventories/prod.toml -- 'dmesg | grep -c Xid'",
    ),
)
@request_options(words="-- COMMAND...")
@click.option("--yes", is_flag=True, help="Don't ask. Skips the question and nothing else.")
@output_options
def execute(view: View, request: Request, yes: bool) -> int:
    """Run a command on hosts; asks first, and is journaled.

    Several words are one command with its arguments, each taken as it is; one word is a line for the shell. It
    runs as root.
    """
    if not request.words:
        raise UsageError("no command was given", remedy="provision exec INVENTORY -- COMMAND")
    command = request.words[0] if len(request.words) == 1 else words(request.words)
    call = replace(request.invocation("exec"), command=request.words)
    with opened(view, request, hosts=request.limit) as work:
        hosts = [host.name for host in work.session.hosts]
        if not yes:
            view.show(f"{one_line(command)}\n  on {one_line(compress(hosts))}\n\n")
            question = f"Run this as root on {counted(len(hosts), 'host')}?"
            agree(work, question, call)
        result = work.session.exec(command)
    text = recap.outputs(result) + recap.render(result, call, view.paint)
    return view.answer(result.exit_code, text, ran=command, **json_doc.run(result))
