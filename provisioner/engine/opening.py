"""From what a site wrote to a session: hosts selected, secrets read, tasks made, transports ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from provisioner.config.limit import select
from provisioner.config.lockfile import read_lock
from provisioner.config.playbook import Built, applies, build_tasks
from provisioner.config.secrets import resolve_secrets
from provisioner.config.site import Site, load_site
from provisioner.config.sitetasks import load_tasks
from provisioner.config.variables import namespace
from provisioner.engine.journal import last_failed
from provisioner.engine.planning import HostSteps, Step, condition_names
from provisioner.engine.session import Session, silent
from provisioner.model.event import Event, Monitor
from provisioner.model.fact import Facts
from provisioner.model.inventory import Host, Inventory, Repository
from provisioner.model.lock import Lock
from provisioner.tasks.context import Context, Options
from provisioner.tasks.task import REGISTRY, Task, build
from provisioner.transport.connect import connector
from provisioner.transport.executor import Connector


def load(path: Path | str, *, limit: str | None = None, sets: Sequence[str] = ()) -> Inventory:
    """An inventory with only the selected hosts; no secret is read, nothing is connected to.

    Raises ConfigError or UsageError.
    """
    inventory = load_site(path, sets=sets).inventory
    return replace(inventory, hosts=select(inventory, limit, last_failed(inventory.path)))


def open_session(
    inventory: Path | str,
    *,
    playbook: str | None = None,
    limit: str | None = None,
    sets: Sequence[str] = (),
    options: Options | None = None,
    local: bool = False,
    forks: int = 32,
    ask: Callable[[str], str] | None = None,
    monitor: Monitor = silent,
    connect: Connector | None = None,
) -> Session:
    """A session over an inventory's hosts. Nothing is connected to before it is asked to plan.

    `playbook`  a shipped one's name or a file; None takes the inventory's
    `limit`     which hosts, as on the command line
    `sets`      strings "key=value", the strongest level of variables
    `local`     work on this machine instead of over SSH (one host must be selected)
    `ask`       asks a person for a secret; None where nobody can be asked
    `connect`   another transport, for tests

    Raises ConfigError (with file, line and column) for everything that is wrong in what was written.
    """
    site = load_site(inventory, playbook=playbook, sets=sets)
    load_tasks(site.playbook.task_names, REGISTRY.keys(), site.playbook.tasks_folder)
    chosen = select(site.inventory, limit, last_failed(site.inventory.path))
    resolved = resolve_secrets(site.inventory, chosen, ask=ask)
    lock = read_lock(resolved.lock_path)
    names = [host.name for host in chosen]
    wanted = [_steps(site, resolved, host, lock, options or Options()) for host in resolved.hosts if host.name in names]

    def warn(host: str, text: str) -> None:
        monitor(Event("warning", time.time(), host, text=text))

    return Session(
        resolved,
        site.playbook,
        wanted,
        connect or connector(resolved, local=local, warn=warn),
        forks=forks,
        monitor=monitor,
    )


def _steps(site: Site, inventory: Inventory, host: Host, lock: Lock | None, options: Options) -> HostSteps:
    values = namespace(host)
    ctx = Context(
        host=host,
        renderer=site.templates,
        values=values,
        lock=lock,
        repositories=tuple(
            value.value
            for name, value in sorted(host.vars.items())
            if name.startswith("repositories.") and isinstance(value.value, Repository)
        ),
        cluster=inventory.cluster,
        options=options,
        inventory=str(inventory.path),
        lock_path=str(inventory.lock_path),
    )
    built = build_tasks(site.playbook, values, site.templates, build)
    return HostSteps(ctx, tuple(_step(site, values, one) for one in built))


def _step(site: Site, values: dict[str, Any], built: Built[Task]) -> Step:
    def condition(facts: Facts) -> bool:
        return applies(site.playbook, built.entry, values, condition_names(facts))

    return Step(built.stage, built.entry.label, built.task, condition if built.entry.when is not None else None)


def catalogue() -> list[tuple[str, str, str, tuple[tuple[str, str, bool], ...]]]:
    """All shipped tasks: name, first line, whole docstring, fields as (name, type, must be given)."""
    from dataclasses import MISSING, fields

    load_tasks((), REGISTRY.keys(), None)
    found = []
    for name, cls in sorted(REGISTRY.items()):
        doc = (cls.__doc__ or "").strip()
        described = tuple(
            (field.name, str(field.type), field.default is MISSING and field.default_factory is MISSING)
            for field in fields(cls)  # type: ignore[arg-type]
        )
        found.append((name, doc.splitlines()[0] if doc else "", doc, described))
    return found
