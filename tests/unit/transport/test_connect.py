"""Which way leads to a host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.errors import InventoryError
from provisioner.model.inventory import Connection, Host, Inventory
from provisioner.transport.connect import connector, jump_address
from provisioner.transport.local import LocalExecutor

BEHIND = Connection("10.0.0.1", user="ops", key=Path("key"), known_hosts=Path("known"), jump="x")


@pytest.mark.parametrize(
    ("text", "user", "address", "port"),
    [
        ("203.0.113.7", "ops", "203.0.113.7", 22),
        ("admin@bastion.example", "admin", "bastion.example", 22),
        ("admin@203.0.113.7:2222", "admin", "203.0.113.7", 2222),
        ("[2001:db8::7]:2222", "ops", "2001:db8::7", 2222),
    ],
)
def test_jump_addresses(text: str, user: str, address: str, port: int) -> None:
    read = jump_address(text, BEHIND)
    assert (read.user, read.address, read.port, read.jump) == (user, address, port, None)
    assert (read.key, read.known_hosts) == (BEHIND.key, BEHIND.known_hosts)


@pytest.mark.parametrize("text", ["", "a b", "user@", "host:0", "host:70000", "host:ssh", "2001:db8::7"])
def test_what_is_no_jump_address(text: str) -> None:
    with pytest.raises(InventoryError, match="jump host"):
        jump_address(text, BEHIND)


def test_local() -> None:
    host = Host("gpu01", Connection("gpu01"))
    inventory = Inventory(Path("site.toml"), "gpu-node", (host,))
    assert isinstance(connector(inventory, local=True)(host), LocalExecutor)


def test_the_ssh_libraries_are_imported_only_for_an_executor() -> None:
    """They take longer than a whole `provision --help`."""
    program = (
        "import sys, provisioner.transport.connect; print([m for m in ('fabric', 'paramiko') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
