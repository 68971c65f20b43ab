"""Inventory, playbook and templates together, read in the order in which they need each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provisioner.config.inventory import load_inventory, with_playbook_vars
from provisioner.config.playbook import Playbook, load_playbook
from provisioner.config.templates import Templates
from provisioner.model.inventory import Inventory


@dataclass(frozen=True)
class Site:
    """What a site has written. The inventory's secrets aren't read yet: `secrets.resolve_secrets` does it for the
    hosts that were selected. The playbook's tasks aren't imported yet: `sitetasks.load_tasks` does it."""

    inventory: Inventory
    playbook: Playbook
    templates: Templates


def load_site(path: Path | str, *, playbook: str | None = None, sets: Sequence[str] = ()) -> Site:
    """Read an inventory and its playbook. `playbook`: a shipped one's name or a path (relative to the working
    folder) instead of the one that the inventory names. Raises ConfigError or UsageError."""
    inventory = load_inventory(path, sets=sets, resolve=False)
    beside = inventory.path.absolute().parent
    book = load_playbook(playbook) if playbook else load_playbook(inventory.playbook, beside=beside)
    return Site(with_playbook_vars(inventory, book.vars), book, Templates([book.beside, beside]))
