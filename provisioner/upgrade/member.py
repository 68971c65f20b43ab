"""A host of a roll: what is known of it, its connection, and where its record lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioner.engine.observe import observe
from provisioner.engine.planning import HostSteps
from provisioner.engine.secrets import Secrets
from provisioner.errors import TransportError, UsageError
from provisioner.facts.boot import KernelsProbe
from provisioner.facts.driver import LoadedModules, ModulesOnDiskProbe
from provisioner.facts.files import FileProbe
from provisioner.facts.host import IdentityProbe, SystemProbe
from provisioner.facts.packages import PackagesProbe
from provisioner.kube.api import Api
from provisioner.model.change import Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.model.lock import Closure, Role
from provisioner.model.upgrade import NodeRecord
from provisioner.quoting import quote
from provisioner.tasks.context import Context
from provisioner.tasks.packaging.names import TOOLKIT
from provisioner.tasks.packaging.stack import stack, stack_probes
from provisioner.tasks.packaging.versions import upstream
from provisioner.transport.executor import Executor
from provisioner.upgrade import record as records
from provisioner.upgrade.hoststep import Fence, Step, scripted

RECORD = "/var/lib/provision/upgrade.json"
"""The record's file on a host, where there is no cluster to keep it."""

PROBES: tuple[Probe[Any], ...] = (
    PackagesProbe(),
    LoadedModules(),
    ModulesOnDiskProbe(),
    KernelsProbe(),
    FileProbe(RECORD),
    *stack_probes(),
)
"""What a roll must know of every host, beside what every observation asks."""


@dataclass
class Member:
    """One host. `node` "" without a cluster; `facts` None while it couldn't be read, then `error` says why."""

    ctx: Context
    executor: Executor
    secrets: Secrets
    kind: Role = "driver"
    node: str = ""
    facts: Facts | None = None
    error: str = ""
    closure: Closure | None = None
    record: NodeRecord | None = field(default=None)
    steps: HostSteps | None = None
    stages: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        return self.ctx.host.name

    def read(self, more: Sequence[Probe[Any]] = ()) -> Facts | None:
        """Read the host anew. A transport error is kept in `error`."""
        try:
            self.facts, self.error = observe(self.executor, (*PROBES, *more), self.secrets), ""
        except TransportError as error:
            self.facts, self.error = None, str(error)
        return self.facts

    def source(self) -> str:
        """The version that runs or is installed now, "" for none. Raises FactUnknown, ValueError when unread."""
        facts = self._facts()
        state = facts.need(PackagesProbe())
        if self.kind == "toolkit":
            return upstream(state.version(TOOLKIT[0]) or "")
        loaded = facts.get(LoadedModules()) or {}
        disk = facts.get(ModulesOnDiskProbe())
        on_disk = disk.modules["nvidia"].version if disk is not None and "nvidia" in disk.modules else ""
        return loaded.get("nvidia") or on_disk

    def wanted(self) -> Closure:
        """The packages that the lock wants here, as `closure` from now on. Raises UsageError when there are none."""
        have = stack(self._facts(), self.ctx)
        if isinstance(have, Refusal):
            raise UsageError(have.what, why=have.why, remedy=have.remedy)
        self.closure = have.closure
        return have.closure

    def _facts(self) -> Facts:
        if self.facts is None:
            raise ValueError(f"{self.host} was not read")
        return self.facts

    @property
    def hostname(self) -> str:
        return self._facts().need(SystemProbe()).hostname

    @property
    def machine_id(self) -> str:
        found = self._facts().need(IdentityProbe()).machine_id
        return "" if found == "none" else found

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel that boots next, where it is another than the running one."""
        found = self._facts().get(KernelsProbe())
        return tuple(kernel.release for kernel in found.both[1:]) if found else ()

    def kept_record(self, api: Api | None) -> NodeRecord | None:
        """The record of an earlier roll. Raises RecordUnreadable, KubeError."""
        if api is not None and self.node:
            return records.of_node(api.node(self.node))
        have = self._facts().get(FileProbe(RECORD))
        return records.from_json(have.content) if have is not None and have.content else None


def save_on_host(fence: Fence, record: NodeRecord) -> Step[None]:
    """Replace the record's file on the host, durable before the step ends."""
    body = f"printf '%s\\n' {quote(records.to_json(record))} | keep {quote(RECORD)}"
    return Step("keep the record", scripted(fence, (), body), 30.0, lambda rows: None)
