"""Task `containerd`: the nvidia handler in the host's containerd, proven before it counts and put back if it fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioner.containerd import BINARY, Edit, Mode, edit, handlers, imported_patterns, judge, plugins_ok
from provisioner.containerd import Refusal as NotEdited
from provisioner.containerd.handler import CgroupDriver
from provisioner.containerd.imports import matches
from provisioner.containerd.result import Refused
from provisioner.containerd.versions import release
from provisioner.facts.containerd import (
    ClientsProbe,
    ConfigInputsProbe,
    DumpProbe,
    Imported,
    ImportedProbe,
    PluginsProbe,
)
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.host import IdentityProbe
from provisioner.facts.kubelet import KubeletProbe
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.facts.services import Inputs, Unit, UnitProbe
from provisioner.model.action import WriteFile
from provisioner.model.change import Change, Disruption, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.tasks.containerd_actions import UNIT, Host, candidate, guarded, life_of
from provisioner.tasks.containerd_k3s import OwnConfig
from provisioner.tasks.context import Context
from provisioner.tasks.service import outdated
from provisioner.tasks.task import Task, task

RESTARTS = "restarts containerd"


@task("containerd")
class Containerd(Task):
    """The handler `nvidia` in containerd's configuration, and containerd running with it.

    The file is edited in place: comments, other handlers and all other settings stay. What results is first read by
    the host's own containerd, then replaces the file, and containerd is restarted only when something changed. If
    its CRI plugin doesn't come up, the previous file comes back. A containerd that somebody stopped stays stopped.
    On k3s and RKE2 the handler goes through their own configuration. `containerd.mode` "default" makes nvidia the
    default handler, "runtimeclass" leaves the default.

        [[stages.tasks]]
        task = "containerd"
    """

    binary: str = BINARY

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        path = config_path(ctx)
        yield from (IdentityProbe(), ContainerdVersionProbe(), KubeletProbe(), FileProbe(self.binary, content=False))
        yield from (FileProbe(path), ImportedProbe(path), DumpProbe(path), PluginsProbe(path), ClientsProbe())
        yield from (UnitProbe(UNIT), inputs_probe(path))
        yield from OwnConfig(mode_of(ctx)).probes()

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        kubelet = facts.get(KubeletProbe())
        if kubelet is not None and kubelet.generates_containerd_config:
            yield from OwnConfig(mode_of(ctx)).plan(facts, kubelet, self._toolkit(facts, ctx))
            return
        path = config_path(ctx)
        have = facts.get(FileProbe(path))
        if have is not None and have.content is None:
            yield Refusal(path, f"{path} is a {have.kind}, not a file", remedy="set containerd.config to the file")
            return
        version = facts.get(ContainerdVersionProbe())
        if version is None or facts.get(DumpProbe(path)) is None:
            yield from self._without_containerd(have, facts, ctx)
            return
        edited = self._edited(version, have, facts, ctx)
        if isinstance(edited, Refusal):
            yield edited
            return
        needs = self._toolkit(facts, ctx)
        if needs is None:
            yield Refusal(
                path,
                f"{self.binary} is not there, and nothing in this plan brings it",
                "a handler without its runtime keeps pods from starting",
                'put the task "toolkit" into a stage before this one',
            )
            return
        host = Host(path, version, life_of(facts))
        if host.restarts and not facts.need(ClientsProbe()):
            yield Refusal(
                UNIT,
                "neither ctr nor crictl is on this host",
                "after a restart nothing would tell whether containerd's CRI plugin came up",
                "install ctr (it comes with containerd) or cri-tools",
            )
            return
        yield from (Note(path, warning) for warning in edited.warnings)
        if edited.changed:
            yield self._write(host, have, edited, facts, ctx, needs)
        else:
            yield from self._restart(host, have, facts, ctx)

    def _cgroup_driver(self, facts: Facts, ctx: Context) -> CgroupDriver | None:
        """The inventory's word, else the kubelet's own; None where neither says."""
        kubelet = facts.get(KubeletProbe())
        said = ctx.var("containerd.cgroup_driver") or (kubelet.cgroup_driver if kubelet else "")
        return "systemd" if said == "systemd" else "cgroupfs" if said == "cgroupfs" else None

    def _edited(self, version: str, have: FileState | None, facts: Facts, ctx: Context) -> Edit | Refusal:
        path = config_path(ctx)
        content = as_bytes(have.content or "") if have else b""
        imported = facts.get(ImportedProbe(path)) or Imported()
        unseen = set(imported_patterns(content, path, version)) - set(imported.patterns)
        if unseen:
            return Refusal(
                path,
                f"{path} imports {', '.join(sorted(unseen))}, and what lies there wasn't read",
                "an import may change what the file means",
                "write imports = [...] at the top of the file, with plain strings",
            )
        driver = self._cgroup_driver(facts, ctx)
        edited = edit(
            content,
            mode=mode_of(ctx),
            containerd=version,
            cgroup_driver=driver,
            imports={name: as_bytes(text) for name, text in imported.files.items()},
            path=path,
            binary=self.binary,
            enable_cdi=ctx.var("containerd.enable_cdi"),
        )
        if isinstance(edited, NotEdited):
            remedy = edited.remedy
            if driver is None and "--cgroup-driver" in remedy:
                remedy = (
                    'set containerd.cgroup_driver in the inventory to "systemd" or "cgroupfs", as the kubelet has it'
                )
            return Refusal(path, f"{path} can't be edited", edited.reason, remedy)
        return edited

    def _toolkit(self, facts: Facts, ctx: Context) -> tuple[str, ...] | None:
        """Ids of the changes that bring the toolkit's runtime; () when it is there, None when nothing brings it."""
        if facts.get(FileProbe(self.binary, content=False)) is not None:
            return ()
        return ctx.earlier("toolkit") or None

    def _without_containerd(self, have: FileState | None, facts: Facts, ctx: Context) -> Iterator[Finding]:
        package = ctx.earlier("containerd.package")
        if not package:
            yield Note(UNIT, "there is no containerd: the cluster's tool brings it, or containerd.install = true")
            return
        if have is None:
            # What every package's own file leaves open must be known before anything is installed.
            first = self._edited("1.7.0", None, facts, ctx)
            if isinstance(first, Refusal):
                yield first
                return
        yield Change(
            config_path(ctx),
            f"{wanted(mode_of(ctx))}, once containerd is there",
            Kind.UPDATE,
            (),
            disruption=Disruption.SERVICE,
            disrupts=RESTARTS,
            provisional=True,
            requires=package,
        )

    def _write(
        self, host: Host, have: FileState | None, edited: Edit, facts: Facts, ctx: Context, needs: tuple[str, ...]
    ) -> Change:
        after = edited.result.decode("utf-8", "surrogateescape")
        write = WriteFile(host.path, after, keep_previous=host.restarts)
        proof = candidate(host, after, have.mode if have else 0o644, mode_of(ctx), self.binary, ctx)
        coming = self._coming(host, have, ctx)
        notes = [note.rstrip(".") for note in edited.notes]
        if not host.restarts:
            notes.append("containerd doesn't run: it reads the file when somebody starts it")
        return Change(
            host.path,
            wanted(mode_of(ctx)),
            Kind.UPDATE if have else Kind.CREATE,
            (*proof, guarded(host, (write,), after, facts, ctx) if host.restarts else write),
            before=have.content if have else None,
            after=after,
            disruption=Disruption.SERVICE if host.restarts else Disruption.NONE,
            disrupts=RESTARTS if host.restarts else "",
            requires=tuple(dict.fromkeys((*needs, *coming))),
            provisional=bool(coming),
            notes=tuple(notes),
        )

    def _coming(self, host: Host, have: FileState | None, ctx: Context) -> tuple[str, ...]:
        """Ids of the changes in this plan that write what containerd reads: its file, or a file that it imports."""
        content = as_bytes(have.content or "") if have else b""
        reads = (host.path, *imported_patterns(content, host.path, host.version))
        return tuple(change for path, change in ctx.pending.items() if any(matches(each, path) for each in reads))

    def _restart(self, host: Host, have: FileState | None, facts: Facts, ctx: Context) -> Iterator[Finding]:
        """The file is right; does containerd run with it?"""
        dump = facts.need(DumpProbe(host.path))
        wrong = [dump.error] if dump.error else [problem.message for problem in judge(dump.text, host.version)]
        if wrong:
            yield Refusal(
                host.path,
                "containerd's effective configuration is not as wanted",
                wrong[0],
                f"look at `containerd -c {host.path} config dump`",
            )
            return
        if host.life == "off":
            yield Note(UNIT, f"{UNIT} does not run: it is left as it is, its configuration is right")
        if not host.restarts:
            return
        coming = self._coming(host, have, ctx)
        why = self._why(host, facts) or ("what it reads changes in this plan" if coming else "")
        if why:
            yield Change(
                UNIT,
                f"restarted: {why}",
                Kind.RUN,
                (guarded(host, (), (have.content or "") if have else "", facts, ctx),),
                disruption=Disruption.SERVICE,
                disrupts=RESTARTS,
                requires=coming,
                provisional=bool(coming),
            )

    def _why(self, host: Host, facts: Facts) -> str:
        """Why a containerd with the right file must be restarted all the same; "" when it needn't."""
        if host.life == "broken":
            return "it failed"
        listing = facts.get(PluginsProbe(host.path))
        problems = plugins_ok(listing, host.version) if listing is not None else ()
        if problems:
            return problems[0].message.rstrip(".")
        unit = facts.need(UnitProbe(UNIT))
        stale = runs_with_another(unit, facts.need(inputs_probe(host.path)))
        return "its configuration changed since it started" if stale else ""

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        version = facts.fact(ContainerdVersionProbe())
        if not isinstance(version, Known):
            return {"containerd": {"unknown": version.reason} if isinstance(version, Unknown) else None}
        told: dict[str, Any] = {"version": number(version.value)}
        dump = facts.fact(DumpProbe(config_path(ctx)))
        if isinstance(dump, Known):
            try:
                found = handlers(dump.value.text, version.value)
                told |= {
                    "default_runtime": found.default,
                    "handlers": [handler.name for handler in found.handlers],
                    "cri": found.cri_enabled,
                }
            except ValueError as error:
                told["config_error"] = dump.value.error or str(error)
        elif isinstance(dump, Unknown):
            told["config_error"] = dump.reason
        return {"containerd": told}


def config_path(ctx: Context) -> str:
    """Where containerd's configuration lies on this host."""
    return str(ctx.var("containerd.config", "/etc/containerd/config.toml"))


def mode_of(ctx: Context) -> Mode:
    """The mode that the inventory chooses."""
    return Mode(ctx.var("containerd.mode", "default"))


def wanted(mode: Mode) -> str:
    """The change in a few words."""
    return f"the handler nvidia, {'the default' if mode is Mode.DEFAULT else 'for pods that name it'}"


def number(version: str) -> str:
    """ "1.7.24" of what `containerd --version` prints; the whole line where there is no number that is known."""
    try:
        return str(release(version))
    except Refused:
        return version


def inputs_probe(path: str) -> ConfigInputsProbe:
    """Whether containerd runs with what lies on the disk."""
    return ConfigInputsProbe(UNIT, (path,))


def runs_with_another(unit: Unit, inputs: Inputs) -> bool:
    """Does containerd run with another configuration than the one on the disk? An import that has gone is a change
    that leaves no time."""
    paths = {line.partition("  ")[2] for line in inputs.now.splitlines()}
    gone = inputs.stamp is not None and any(line.partition("  ")[2] not in paths for line in inputs.stamp.splitlines())
    return gone or outdated(unit, inputs)


def as_bytes(text: str) -> bytes:
    """A file's content as it was read."""
    return text.encode("utf-8", "surrogateescape")
