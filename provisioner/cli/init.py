"""`provision init`."""

from __future__ import annotations

import getpass
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli.options import example, output_options
from provisioner.cli.view import View
from provisioner.errors import EXIT_DONE, EXIT_FAILED, UsageError

if TYPE_CHECKING:
    from provisioner.model.inventory import Connection, Inventory

_TARGET = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\s]+)(?::(?P<port>\d{1,5}))?")
"""[USER@]HOST[:PORT], an IPv6 address in brackets. HOST may be a range."""


@click.command(
    epilog=example(
        "provision init 'gpu[01-16]' --user ops > inventories/prod.toml",
        "provision init ops@10.0.0.7:2222 --jump ops@bastion > inventories/prod.toml",
    )
)
@click.argument("targets", nargs=-1, required=True, metavar="HOST...")
@click.option("--user", help="The user to log in as, where a HOST names none.")
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="The private key, else what ssh finds.")
@click.option("--known-hosts", type=click.Path(path_type=Path), metavar="FILE", help="Else ~/.ssh/known_hosts.")
@click.option("--jump", metavar="[USER@]HOST[:PORT]", help="The host that leads there.")
@click.option("--accept-new", is_flag=True, help="Take host keys that are new; changed ones are refused in any case.")
@click.option("--ask-sudo-password", is_flag=True, help="Ask for the password that sudo wants.")
@click.option("--forks", type=click.IntRange(1), default=32, show_default=True, help="Hosts worked on at once.")
@output_options
def init(
    view: View,
    targets: tuple[str, ...],
    user: str | None,
    key: Path | None,
    known_hosts: Path | None,
    jump: str | None,
    accept_new: bool,
    ask_sudo_password: bool,
    forks: int,
) -> int:
    """Write an annotated inventory for hosts, with the versions found on them.

    Hosts are only read. The inventory goes to stdout. Exit code 1 when a host couldn't be read; it is in the
    inventory all the same, with the reason.
    """
    from provisioner.config.annotate import annotate
    from provisioner.engine.discovery import discover
    from provisioner.model.inventory import Connection, Secret

    password = Secret("sudo", getpass.getpass("sudo password: ")) if ask_sudo_password else None
    settings = Connection(
        address="",
        user=user,
        key=key.expanduser() if key else None,
        known_hosts=known_hosts.expanduser() if known_hosts else None,
        host_keys="accept-new" if accept_new else "strict",
        jump=jump,
        sudo_password=password,
    )
    inventory = passing(targets, settings)
    with view.progress() as progress:
        found = discover(inventory, forks=forks, monitor=progress)
    if sys.stdout.isatty() and not view.as_json:
        view.say("to keep it: provision init … > inventories/prod.toml")
    text = annotate(found, settings)
    failed = any(host.error for host in found)
    hosts = {host.name: asdict(host) for host in found}
    return view.answer(EXIT_FAILED if failed else EXIT_DONE, text, text=text, hosts=hosts)


def passing(targets: tuple[str, ...], settings: Connection) -> Inventory:
    """An inventory that lives for this command only. Raises UsageError for a target that can't be read."""
    from dataclasses import replace

    from provisioner.config.ranges import expand
    from provisioner.model.inventory import Host, Inventory

    hosts: dict[str, Host] = {}
    for target in targets:
        match = _TARGET.fullmatch(target)
        if match is None:
            raise UsageError(f"can't read the host {target!r}", remedy="write [USER@]HOST[:PORT]")
        literal = match["host"].startswith("[")
        try:
            names = [match["host"].strip("[]")] if literal else [member.name for member in expand(match["host"])]
        except ValueError as error:
            raise UsageError(f"can't read the range {target!r}", why=str(error)) from error
        for name in names:
            if name in hosts:
                raise UsageError(f"the host {name} is named twice")
            reached = replace(
                settings, address=name, user=match["user"] or settings.user, port=int(match["port"] or settings.port)
            )
            hosts[name] = Host(name, reached)
    secrets = (settings.sudo_password,) if settings.sudo_password else ()
    return Inventory(Path("new.toml"), "gpu-node", tuple(hosts.values()), secrets=secrets)
