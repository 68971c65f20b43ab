"""`provision facts`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from provisioner.cli.opening import opened
from provisioner.cli.options import Request, example, only_hosts, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_FAILED, UsageError
from provisioner.replacing import replace_file
from provisioner.report import facts as facts_text


@click.command(
    epilog=example(
        "provision facts inventories/prod.toml gpu07",
        "provision facts inventories/prod.toml --save facts/today",
        "provision facts inventories/prod.toml --json",
    )
)
@request_options(words="[HOST]...")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also keep them as DIR/HOST.json, for drift --since DIR.",
)
@output_options
def facts(view: View, request: Request, save: Path | None) -> int:
    """Show what is read from the hosts: driver, toolkit, containerd, modules, cards, self-test."""
    with opened(view, request, hosts=only_hosts(request)) as work:
        found = work.session.facts()
    failed = [host for host, values in found.items() if "error" in values]
    if save is not None:
        keep(save, {host: values for host, values in found.items() if host not in failed})
    return view.answer(EXIT_FAILED if failed else EXIT_DONE, facts_text.render(found, view.paint), hosts=found)


def keep(folder: Path, found: dict[str, dict[str, object]]) -> None:
    """Write one file a host. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for host, values in found.items():
            replace_file(folder / f"{host}.json", (json.dumps(values, indent=2) + "\n").encode(), private=True)
    except OSError as error:
        raise UsageError(f"can't save facts in {folder}", why=error.strerror or str(error)) from error


def kept(folder: Path) -> dict[str, dict[str, object]]:
    """What `keep` wrote. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"there are no facts in {folder}", remedy="provision facts INVENTORY --save DIR makes some")
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"can't read {path}", why=str(error)) from error
    return found
