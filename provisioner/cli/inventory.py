"""`provision inventory list` and `provision inventory show`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from provisioner.cli.options import Request, example, only_hosts, output_options, request_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE
from provisioner.report import inventory as inventory_text

if TYPE_CHECKING:
    from provisioner.model.inventory import Inventory


@click.group(epilog=example("provision inventory list", "provision inventory show inventories/prod.toml gpu07"))
def inventory() -> None:
    """Show hosts and where each of their values comes from."""


@inventory.command(name="list", epilog=example("provision inventory list inventories/prod.toml --limit h100"))
@request_options(reads=False)
@output_options
def list_hosts(view: View, request: Request) -> int:
    """List the hosts."""
    found = _load(request)
    hosts = {host.name: inventory_text.host_json(host) for host in found.hosts}
    groups = {name: list(members) for name, members in found.groups.items()}
    text = inventory_text.hosts_table(found, view.paint)
    return view.answer(EXIT_DONE, text, inventory=str(found.path), groups=groups, hosts=hosts)


@inventory.command(epilog=example("provision inventory show inventories/prod.toml gpu07"))
@request_options(reads=False, words="[HOST]...")
@output_options
def show(view: View, request: Request) -> int:
    """Show each value of the hosts with its origin."""
    found = _load(request)
    hosts = {host.name: inventory_text.host_json(host) for host in found.hosts}
    text = "\n".join(inventory_text.host_values(host, view.paint) for host in found.hosts)
    return view.answer(EXIT_DONE, text, inventory=str(found.path), playbook=found.playbook, hosts=hosts)


def _load(request: Request) -> Inventory:
    """Read the inventory alone: listing it connects to nothing and needs no templates, so that it answers at once."""
    from provisioner.config.inventory import load_inventory, with_playbook_vars
    from provisioner.config.limit import select
    from provisioner.config.playbook import load_playbook
    from provisioner.engine.journal import last_failed

    found = load_inventory(request.inventory, sets=request.sets, resolve=False)
    found = with_playbook_vars(found, load_playbook(found.playbook, beside=found.path.absolute().parent).vars)
    return replace(found, hosts=select(found, only_hosts(request), last_failed(found.path)))
