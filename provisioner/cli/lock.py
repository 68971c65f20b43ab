"""`provision lock`."""

from __future__ import annotations

import click

from provisioner.cli.opening import opened
from provisioner.cli.options import Request, example, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_PENDING
from provisioner.report.printable import one_line


@click.command(epilog=example("provision lock inventories/prod.toml", "provision lock inventories/prod.toml --check"))
@request_options()
@click.option("--check", is_flag=True, help="Write nothing; exit 2 when the lock would change.")
@output_options
def lock(view: View, request: Request, check: bool) -> int:
    """Find the exact packages per distribution and write them beside the inventory.

    Hosts are only read: the packages are found by a simulated installation in a folder of its own.
    """
    with opened(view, request) as work:
        found = work.session.lock(check)
        if found.changed and not check:
            work.session.write_lock(found)
    lines = [f"  {one_line(difference)}" for difference in found.differences]
    if not found.changed:
        lines.append(f"{found.path} is up to date")
    elif check:
        lines.append(f"{found.path} would change: {request.invocation('lock').again()}")
    else:
        lines.append(f"wrote {found.path}; next: {request.invocation('plan').again()}")
    closures = [
        {
            "distribution": closure.distribution,
            "arch": closure.arch,
            "driver": closure.driver,
            "toolkit": closure.toolkit,
            "packages": {package.name: package.version for package in closure.packages},
        }
        for closure in found.lock.closures
    ]
    return view.answer(
        EXIT_PENDING if check and found.changed else EXIT_DONE,
        "\n".join(lines) + "\n",
        path=str(found.path),
        changed=found.changed,
        written=found.changed and not check,
        differences=list(found.differences),
        closures=closures,
    )
