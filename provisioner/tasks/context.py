"""What a task is given besides facts: its host, the variables, the lock, templates and the run's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from provisioner.model.inventory import Cluster, Host, Repository
from provisioner.model.lock import Lock
from provisioner.quoting import words


class Renderer(Protocol):
    """Jinja2 behind two methods; made by config/templates."""

    def text(self, source: str, values: Mapping[str, Any], name: str) -> str:
        """Render a template given as text. Raises TemplateError with line and, where known, column."""
        ...

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        """Render a template file: the site's `templates/NAME` beside the playbook, else the shipped one."""
        ...

    def asset(self, name: str) -> str:
        """A file beside the playbook (`files/NAME`), unrendered; bytes that aren't UTF-8 as surrogates."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line allows this run. `local`: this machine, perhaps without a running systemd.
    `drained`: a rolling upgrade has emptied the node, so that nothing has to wait any more."""

    allow_no_gpu: bool = False
    disruptive: bool = False
    reboot: bool = False
    local: bool = False
    drained: bool = False


@dataclass(frozen=True)
class Context:
    """Read-only. `values` is the nested namespace of all variables as templates see it. `pending`: path → id of the
    change, for files that changes planned before this task (in this plan, not deferred) will write or remove.
    `planned`: ids of all changes planned before this task, deferred ones included."""

    host: Host
    renderer: Renderer
    values: Mapping[str, Any] = field(default_factory=dict)
    lock: Lock | None = None
    repositories: tuple[Repository, ...] = ()
    cluster: Cluster | None = None
    options: Options = field(default_factory=Options)
    inventory: str = ""
    lock_path: str = ""
    pending: Mapping[str, str] = field(default_factory=dict)
    planned: tuple[str, ...] = ()

    def var(self, name: str, default: Any = None) -> Any:
        """A variable's value by dotted name."""
        return self.host.var(name, default)

    def earlier(self, task: str) -> tuple[str, ...]:
        """Ids of the changes that this task (by name or label) has planned before."""
        return tuple(change for change in self.planned if change.partition("/")[2].partition(":")[0] == task)

    def render(self, source: str, **extra: Any) -> str:
        """Render a template given as text, with this host's variables."""
        return self.renderer.text(source, {**self.values, **extra}, "inline")

    def template(self, name: str, **extra: Any) -> str:
        """Render a template file, with this host's variables."""
        return self.renderer.template(name, {**self.values, **extra})

    def asset(self, name: str) -> str:
        """A file beside the playbook, as it is."""
        return self.renderer.asset(name)

    def command(self, verb: str, *more: str) -> str:
        """A command line for a person: `provision VERB INVENTORY --limit HOST …`."""
        return words(("provision", verb, self.inventory, *more))
