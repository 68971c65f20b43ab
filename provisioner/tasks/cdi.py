"""Task `cdi`: CDI specifications that fit the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioner.facts.containerd import CdiSpec, CdiSpecsProbe
from provisioner.facts.driver import LibrariesProbe, LoadedModules
from provisioner.facts.files import FileProbe
from provisioner.facts.host import IdentityProbe
from provisioner.model.action import Run
from provisioner.model.change import Change, Finding, Kind, Note
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task, task

GPU = "nvidia.com/gpu"
"""The kind that `nvidia-ctk cdi generate` gives; specifications of other kinds have other authors."""
REFRESH = "/usr/lib/systemd/system/nvidia-cdi-refresh.service"
"""From 1.18 on the toolkit has a unit that writes /var/run/cdi/nvidia.yaml at boot."""
FIRST = "CDI specification"


@task("cdi")
class Cdi(Task):
    """CDI specifications of `nvidia-ctk cdi generate` that name the libraries of the driver that is there.

    After a driver change a specification names libraries that have gone, and containers don't start
    (NVIDIA/nvidia-container-toolkit#1239): those in /etc/cdi and /var/run/cdi are made anew, each replaced whole.
    Where there is none, one is made only if `containerd.enable_cdi` is true. Specifications of other kinds than
    nvidia.com/gpu belong to the programs that write them and are only told of.

        [[stages.tasks]]
        task = "cdi"
    """

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield from (CdiSpecsProbe(), LoadedModules(), LibrariesProbe(), IdentityProbe())
        yield FileProbe(REFRESH, content=False)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        specs = facts.get(CdiSpecsProbe()) or {}
        driver = self._driver(facts, ctx)
        if not driver:
            return
        for path, spec in specs.items():
            if not spec.drivers or spec.drivers == (driver,):
                continue
            named = ", ".join(spec.drivers)
            if spec.kind != GPU:
                yield Note(
                    path, f"{path} names libraries of driver {named}, not {driver}: what writes it must do so anew"
                )
                continue
            yield from self._made(path, f"CDI specification for driver {named} → {driver}", path, spec, facts, ctx)
        if not any(spec.kind == GPU for spec in specs.values()) and ctx.var("containerd.enable_cdi"):
            own = facts.get(FileProbe(REFRESH, content=False)) is not None or bool(ctx.earlier("toolkit"))
            path = "/var/run/cdi/nvidia.yaml" if own else "/etc/cdi/nvidia.yaml"
            yield from self._made(FIRST, f"{path}, for driver {driver}", path, None, facts, ctx)

    def _driver(self, facts: Facts, ctx: Context) -> str:
        """The version that containers will find on the host: what this plan installs, else the libraries'."""
        if ctx.earlier("driver"):
            return str(ctx.var("versions.driver") or "")
        found = {library.version for library in facts.get(LibrariesProbe()) or () if library.linked and library.version}
        return found.pop() if len(found) == 1 else ""

    def _made(
        self, subject: str, summary: str, path: str, spec: CdiSpec | None, facts: Facts, ctx: Context
    ) -> Iterator[Finding]:
        driver = self._driver(facts, ctx)
        if not facts.need(IdentityProbe()).systemd:
            yield Note(subject, f"{summary}: made on a host, with the driver loaded")
            return
        coming = tuple(change for name in ("driver", "toolkit", "modules") for change in ctx.earlier(name))
        script = ctx.template(
            "containerd/cdi-spec", path=path, driver=driver, numbered=spec is not None and spec.numbered
        )
        change = Change(
            subject,
            summary,
            Kind.UPDATE if spec else Kind.CREATE,
            (Run(script, "nvidia-ctk cdi generate", timeout=120.0),),
            requires=coming,
            provisional=bool(coming),
        )
        loaded = (facts.get(LoadedModules()) or {}).get("nvidia")
        if loaded is None and not ctx.earlier("modules"):
            change = change.defer("the driver isn't loaded", ctx.command("apply", "--limit", ctx.host.name))
        elif loaded is not None and loaded != driver:
            limit = ("--limit", ctx.host.name)
            change = change.defer(
                f"driver {loaded} is loaded: needs a drained node", ctx.command("upgrade-driver", *limit)
            )
        yield change

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        fact = facts.fact(CdiSpecsProbe())
        if isinstance(fact, Unknown):
            return {"cdi": {"unknown": fact.reason}}
        specs = fact.value if isinstance(fact, Known) else {}
        return {"cdi": {path: spec.drivers[0] if len(spec.drivers) == 1 else list(spec.drivers) or None
                        for path, spec in specs.items()} or None}  # fmt: skip
