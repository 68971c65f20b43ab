"""Task `toolkit.config`: the container toolkit's own configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from provisioner.containerd import BINARY, TOOLKIT_CONFIG, Edit, edit_toolkit
from provisioner.containerd import Refusal as NotEdited
from provisioner.facts.files import FileProbe
from provisioner.model.action import WriteFile
from provisioner.model.change import Change, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Known, Probe, Unknown
from provisioner.tasks.context import Context
from provisioner.tasks.task import Task, task

PLAIN, REAL = "/sbin/ldconfig", "/sbin/ldconfig.real"
"""Ubuntu's /sbin/ldconfig is a script around /sbin/ldconfig.real; elsewhere there is only the first."""


@task("toolkit.config")
class ToolkitConfig(Task):
    """/etc/nvidia-container-runtime/config.toml, edited in place: all that isn't named here stays, comments too.

    `ldconfig` is made to name the program that this distribution has; a path of the site's own stays. The other
    fields are taken from the variables `toolkit.mode`, `toolkit.no_cgroups`, `toolkit.accept_envvar_unprivileged`
    and `toolkit.accept_volume_mounts` where they aren't given, and left as they are where those aren't set either.
    Containers that run aren't disturbed: the file is read when one starts.

        [[stages.tasks]]
        task = "toolkit.config"
        mode = "cdi"
        accept_envvar_unprivileged = false
        accept_volume_mounts = true
    """

    path: str = TOOLKIT_CONFIG
    mode: Literal["auto", "legacy", "cdi", "csv", "jit-cdi"] | None = None
    no_cgroups: bool | None = None
    accept_envvar_unprivileged: bool | None = None
    accept_volume_mounts: bool | None = None

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield FileProbe(self.path)
        yield from (FileProbe(program, content=False) for program in (BINARY, PLAIN, REAL))

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        have = facts.get(FileProbe(self.path))
        coming = ctx.earlier("toolkit")
        if have is None and facts.get(FileProbe(BINARY, content=False)) is None:
            if coming:
                yield self._announced(coming)
            else:
                yield Note(self.path, "the container toolkit isn't there, and nothing in this plan brings it")
            return
        if have is not None and have.content is None:
            yield Refusal(
                self.path, f"{self.path} is a {have.kind}, not a file", remedy="move it away, then plan again"
            )
            return
        if have is None and not any(value is not None for value in self._wanted(ctx).values()):
            return
        before = have.content if have else None
        edited = self._edited(before or "", facts, ctx)
        if isinstance(edited, NotEdited):
            yield Refusal(self.path, f"{self.path} can't be edited", edited.reason, edited.remedy)
        elif edited.changed:
            after = edited.result.decode("utf-8", "surrogateescape")
            notes = tuple(note.rstrip(".") for note in edited.notes)
            yield Change(
                self.path,
                notes[0] if len(notes) == 1 else f"{len(notes)} settings of the container toolkit",
                Kind.UPDATE if have else Kind.CREATE,
                (WriteFile(self.path, after),),
                before=before,
                after=after,
                requires=coming,
                provisional=bool(coming),
                notes=notes if len(notes) > 1 else (),
            )

    def _announced(self, coming: tuple[str, ...]) -> Change:
        return Change(
            self.path,
            "settings of the container toolkit, once it is there",
            Kind.UPDATE,
            (),
            requires=coming,
            provisional=True,
        )

    def _edited(self, content: str, facts: Facts, ctx: Context) -> Edit | NotEdited:
        return edit_toolkit(
            content.encode("utf-8", "surrogateescape"),
            ldconfig=self._ldconfig(content, facts),
            **self._wanted(ctx),
            path=self.path,
        )

    def _wanted(self, ctx: Context) -> dict[str, Any]:
        """Setting → its value, None where nobody wants one."""
        names = ("mode", "no_cgroups", "accept_envvar_unprivileged", "accept_volume_mounts")
        given = {name: getattr(self, name) for name in names}
        return {name: ctx.var(f"toolkit.{name}") if value is None else value for name, value in given.items()}

    def _ldconfig(self, content: str, facts: Facts) -> str:
        """What the file says where that is none of the two usual programs, else the one that this host has."""
        real = facts.get(FileProbe(REAL, content=False)) is not None
        right = f"@{REAL if real else PLAIN}"
        said = settings(content).get("ldconfig")
        return said if isinstance(said, str) and said.removeprefix("@") not in ("", PLAIN, REAL) else right

    def describe(self, facts: Facts, ctx: Context) -> Mapping[str, Any]:
        fact = facts.fact(FileProbe(self.path))
        if isinstance(fact, Unknown):
            return {"toolkit_config": {"unknown": fact.reason}}
        if not isinstance(fact, Known):
            return {"toolkit_config": None}
        return {"toolkit_config": settings(fact.value.content or "")}


def settings(content: str) -> dict[str, Any]:
    """The settings that matter to containers, by the names that the task's fields have; those that aren't set are
    left out. Empty for a file that can't be read as TOML."""
    try:
        meaning = tomllib.loads(content.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    cli, runtime = (meaning.get(name) for name in ("nvidia-container-cli", "nvidia-container-runtime"))
    cli, runtime = (table if isinstance(table, dict) else {} for table in (cli, runtime))
    found = {
        "mode": runtime.get("mode"),
        "ldconfig": cli.get("ldconfig"),
        "no_cgroups": cli.get("no-cgroups"),
        "accept_envvar_unprivileged": meaning.get("accept-nvidia-visible-devices-envvar-when-unprivileged"),
        "accept_volume_mounts": meaning.get("accept-nvidia-visible-devices-as-volume-mounts"),
    }
    return {name: value for name, value in found.items() if value is not None}
