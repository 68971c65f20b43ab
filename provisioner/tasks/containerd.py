"""Task `containerd`: the nvidia handler in the host's containerd, proven before it counts and put back if it fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provisioner.containerd import BINARY, Edit, Mode, edit, handlers, judge, needed_plugins, plugins_ok
from provisioner.containerd import Refusal as NotEdited
from provisioner.containerd.handler import CgroupDriver
from provisioner.facts.containerd import DumpProbe, ImportedProbe, PluginsProbe
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.kubelet import KubeletProbe
from provisioner.facts.runtime import ContainerdVersionProbe
from provisioner.facts.services import InputsProbe, UnitProbe, inputs_script, stamp_path
from provisioner.model.action import Action, Guarded, RemoveFile, Restore, Run, Service, WriteFile
from provisioner.model.change import Change, Disruption, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.quoting import quote
from provisioner.tasks.containerd_k3s import OwnConfig
from provisioner.tasks.context import Context
from provisioner.tasks.service import outdated
from provisioner.tasks.task import Task, task

UNIT = "containerd.service"


@task("containerd")
class Containerd(Task):
    """The handler `nvidia` in containerd's configuration, and containerd running with it.

    The file is edited in place: comments, other handlers and all other settings stay. What results is first read by
    the host's own containerd, then replaces the file, and containerd is restarted only when something changed. If
    its CRI plugin doesn't come up, the previous file comes back. On k3s and RKE2 the handler goes through their own
    configuration. `containerd.mode` "default" makes nvidia the default handler, "runtimeclass" leaves the default.

        [[stages.tasks]]
        task = "containerd"
    """

    binary: str = BINARY

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        path = config_path(ctx)
        yield from (ContainerdVersionProbe(), KubeletProbe(), FileProbe(self.binary, content=False))
        yield from (FileProbe(path), ImportedProbe(path), DumpProbe(path), PluginsProbe())
        yield from (UnitProbe(UNIT), inputs_probe(path))
        yield from OwnConfig(mode_of(ctx)).probes()

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        kubelet = facts.get(KubeletProbe())
        if kubelet is not None and kubelet.generates_containerd_config:
            yield from OwnConfig(mode_of(ctx)).plan(facts, kubelet, self._toolkit(facts, ctx))
            return
        version = facts.get(ContainerdVersionProbe())
        if version is None:
            yield from self._without_containerd(ctx)
            return
        path = config_path(ctx)
        have = facts.get(FileProbe(path))
        if have is not None and have.content is None:
            yield Refusal(path, f"{path} is a {have.kind}, not a file", remedy="set containerd.config to the file")
            return
        edited = self._edited(version, have, facts, ctx)
        if isinstance(edited, NotEdited):
            remedy = edited.remedy
            if self._cgroup_driver(facts, ctx) is None and "--cgroup-driver" in remedy:
                remedy = 'set containerd.cgroup_driver in the inventory to "systemd" or "cgroupfs", as the kubelet has it'
            yield Refusal(path, f"{path} can't be edited", edited.reason, remedy)
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
        yield from (Note(path, warning) for warning in edited.warnings)
        if edited.changed:
            yield self._write(version, have, edited, ctx, needs)
        else:
            yield from self._restart(version, facts, ctx)

    def _cgroup_driver(self, facts: Facts, ctx: Context) -> CgroupDriver | None:
        """The inventory's word, else the kubelet's own; None where neither says."""
        kubelet = facts.get(KubeletProbe())
        said = ctx.var("containerd.cgroup_driver") or (kubelet.cgroup_driver if kubelet else "")
        return "systemd" if said == "systemd" else "cgroupfs" if said == "cgroupfs" else None

    def _edited(self, version: str, have: FileState | None, facts: Facts, ctx: Context) -> Edit | NotEdited:
        path = config_path(ctx)
        imported = facts.get(ImportedProbe(path)) or {}
        return edit(
            as_bytes(have.content or "") if have else b"",
            mode=mode_of(ctx),
            containerd=version,
            cgroup_driver=self._cgroup_driver(facts, ctx),
            imports={name: as_bytes(text) for name, text in imported.items()},
            path=path,
            binary=self.binary,
            enable_cdi=ctx.var("containerd.enable_cdi"),
        )

    def _toolkit(self, facts: Facts, ctx: Context) -> tuple[str, ...] | None:
        """Ids of the changes that bring the toolkit's runtime; () when it is there, None when nothing brings it."""
        if facts.get(FileProbe(self.binary, content=False)) is not None:
            return ()
        return ctx.earlier("toolkit") or None

    def _without_containerd(self, ctx: Context) -> Iterator[Finding]:
        package = ctx.earlier("containerd.package")
        if not package:
            yield Note(UNIT, "there is no containerd: the cluster's tool brings it, or containerd.install = true")
            return
        yield Change(
            config_path(ctx),
            "the handler nvidia, once containerd is there",
            Kind.UPDATE,
            (),
            disruption=Disruption.SERVICE,
            disrupts="restarts containerd",
            provisional=True,
            requires=package,
        )

    def _write(
        self, version: str, have: FileState | None, edited: Edit, ctx: Context, needs: tuple[str, ...]
    ) -> Change:
        path = config_path(ctx)
        before = have.content if have else None
        after = edited.result.decode("utf-8", "surrogateescape")
        candidate = f"{path}.provision-candidate"
        mode = have.mode if have else 0o644
        check = ctx.template(
            "containerd/check-candidate", candidate=candidate, mode=mode_of(ctx).value, binary=self.binary
        )
        write = WriteFile(path, after, keep_previous=True)
        return Change(
            path,
            "; ".join(note.rstrip(".") for note in edited.notes) or "the handler nvidia",
            Kind.UPDATE if have else Kind.CREATE,
            (
                WriteFile(candidate, after, mode=mode),
                Run(f"c={quote(candidate)}; trap 'rm -f \"$c\"' EXIT\n{check}", "the candidate, read by containerd"),
                self._guarded(version, ctx, (write,)),
            ),
            before=before,
            after=after,
            disruption=Disruption.SERVICE,
            disrupts="restarts containerd",
            requires=needs,
        )

    def _restart(self, version: str, facts: Facts, ctx: Context) -> Iterator[Finding]:
        """The file is right; does containerd run with it?"""
        path = config_path(ctx)
        unit = facts.get(UnitProbe(UNIT))
        if unit is None or not unit.active:
            return
        listing = facts.get(PluginsProbe())
        problems = plugins_ok(listing, version) if listing is not None else ()
        dump = facts.get(DumpProbe(path))
        wrong = [dump.error] if dump and dump.error else [p.message for p in judge(dump.text, version)] if dump else []
        if wrong:
            yield Refusal(path, "containerd's effective configuration is not as wanted", wrong[0], f"look at {path}")
            return
        if not unit.runs:
            yield Note(UNIT, f"{UNIT} does not run ({unit.active}); it is left as it is")
            return
        if not problems and not outdated(unit, facts.need(inputs_probe(path))):
            return
        why = problems[0].message if problems else "its configuration changed since it started"
        yield Change(
            UNIT,
            f"restarted: {why}",
            Kind.RUN,
            (self._guarded(version, ctx, ()),),
            disruption=Disruption.SERVICE,
            disrupts="restarts containerd",
        )

    def _guarded(self, version: str, ctx: Context, writes: tuple[Action, ...]) -> Guarded:
        """Restart with what was written; when the CRI plugin doesn't come up, the previous file and a restart."""
        path = config_path(ctx)
        plugins = needed_plugins(version)
        stamp = stamp_path(UNIT)
        note = f"mkdir -p {quote(stamp.rpartition('/')[0])}\n{{\n{inputs_script(input_paths(path))}}} >{quote(stamp)}"
        return Guarded(
            (*writes, Run(note, "note what containerd reads"), Service(UNIT, state="restarted")),
            check=ctx.template("containerd/check-running", plugins=plugins, handler="nvidia"),
            undo=(Restore(path), RemoveFile(stamp), Service(UNIT, state="restarted")),
            check_undo=ctx.template("containerd/check-running", plugins=plugins, handler=""),
            what="containerd with its CRI plugin",
        )

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        version = facts.fact(ContainerdVersionProbe())
        if not isinstance(version, Known):
            return {"containerd": {"unknown": version.reason} if isinstance(version, Unknown) else None}
        told: dict[str, Any] = {"version": version.value}
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


def input_paths(path: str) -> tuple[str, ...]:
    """What containerd reads at its start: its file, and the folder that drop-ins usually lie in."""
    return (path, f"{path.rpartition('/')[0]}/conf.d")


def inputs_probe(path: str) -> InputsProbe:
    """Whether containerd runs with what lies on the disk."""
    return InputsProbe(UNIT, input_paths(path))


def as_bytes(text: str) -> bytes:
    """A file's content as it was read."""
    return text.encode("utf-8", "surrogateescape")
