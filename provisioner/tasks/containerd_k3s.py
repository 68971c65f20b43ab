"""k3s and RKE2: they write containerd's configuration themselves, so the handler goes through their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provisioner.containerd import Edit, Mode, edit_own_config, generated_problems, own_config
from provisioner.containerd import Refusal as NotEdited
from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.kubelet import Kubelet
from provisioner.model.action import Guarded, Restore, Service, WriteFile
from provisioner.model.change import Change, Disruption, Finding, Kind, Note, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.quoting import quote

FLAVOURS = ("k3s", "rke2")


def flavour_of(kubelet: Kubelet) -> str:
    """k3s or rke2, whose agents and servers are units of several names."""
    return flavour_named(kubelet.unit)


def flavour_named(unit: str) -> str:
    """k3s or rke2, by a unit's name."""
    return "rke2" if unit.startswith("rke2") else "k3s"


def generated_path(flavour: str) -> str:
    """The file that k3s or RKE2 writes at every start; never edited."""
    return f"/var/lib/rancher/{flavour}/agent/etc/containerd/config.toml"


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """The handler on a host whose containerd belongs to k3s or RKE2."""

    mode: Mode

    def probes(self) -> Iterator[Probe[Any]]:
        """Their own configuration, and the file they generated at their last start."""
        for flavour in FLAVOURS:
            yield from (FileProbe(own_config(flavour)), FileProbe(generated_path(flavour)))

    def plan(self, facts: Facts, kubelet: Kubelet, needs: tuple[str, ...] | None) -> Iterator[Finding]:
        """`needs`: ids of the changes that bring the toolkit's runtime; None when nothing brings it."""
        flavour = flavour_of(kubelet)
        path, generated = own_config(flavour), generated_path(flavour)
        if needs is None:
            yield Refusal(
                path,
                "the toolkit's runtime is not there, and nothing in this plan brings it",
                f"{flavour} looks for it when it starts, and adds the handler nvidia only then",
                'put the task "toolkit" into a stage before this one',
            )
            return
        have = facts.get(FileProbe(path))
        before = have.content if have else None
        edited = edit_own_config((before or "").encode("utf-8", "surrogateescape"), mode=self.mode, path=path)
        if isinstance(edited, NotEdited):
            yield Refusal(path, f"{path} can't be edited", edited.reason, edited.remedy)
            return
        last = facts.get(FileProbe(generated))
        text = (last.content or "") if last else ""
        problems = generated_problems(text.encode("utf-8", "surrogateescape"), mode=self.mode) if text else ()
        unit = f"{kubelet.unit}.service"
        if edited.changed:
            yield self._write(have, edited, kubelet, needs)
        elif problems and kubelet.active:
            yield Change(
                unit,
                f"restarted: {problems[0].message.rstrip('.')}",
                Kind.RUN,
                (self._guarded(path, unit, ()),),
                disruption=Disruption.SERVICE,
                disrupts=f"restarts {unit}",
                requires=needs,
            )
        elif problems:
            yield Note(unit, f"{unit} doesn't run; {generated} is written anew when it starts")

    def _write(self, have: FileState | None, edited: Edit, kubelet: Kubelet, needs: tuple[str, ...]) -> Change:
        path, unit = own_config(flavour_of(kubelet)), f"{kubelet.unit}.service"
        after = edited.result.decode("utf-8", "surrogateescape")
        write = WriteFile(path, after, mode=None if have else 0o600, keep_previous=kubelet.active)
        notes = [note.rstrip(".") for note in edited.notes]
        if not kubelet.active:
            notes.append(f"{unit} doesn't run: it reads the file at its next start")
        return Change(
            path,
            "default-runtime: nvidia" if self.mode is Mode.DEFAULT else "without default-runtime: nvidia",
            Kind.UPDATE if have else Kind.CREATE,
            (self._guarded(path, unit, (write,)) if kubelet.active else write,),
            before=told(have.content or "") if have else None,
            after=told(after),
            disruption=Disruption.SERVICE if kubelet.active else Disruption.NONE,
            disrupts=f"restarts {unit}" if kubelet.active else "",
            requires=needs,
            notes=tuple(notes),
        )

    def _guarded(self, path: str, unit: str, writes: tuple[WriteFile, ...]) -> Guarded:
        """Restart; when the generated file isn't as wanted then, the previous configuration and a restart."""
        generated = generated_path(flavour_named(unit))
        return Guarded(
            (*writes, Service(unit, state="restarted", timeout=300.0)),
            check=self._check(generated, unit),
            undo=(Restore(path), Service(unit, state="restarted", timeout=300.0)),
            check_undo=f"systemctl is-active -q {quote(unit)}",
            what=f"the file that {flavour_named(unit)} generates",
            timeout=180.0,
        )

    def _check(self, generated: str, unit: str) -> str:
        """sh: wait until the generated file has the handler, and nvidia as the default only where that is wanted."""
        default = f"{'' if self.mode is Mode.DEFAULT else '! '}grep -q 'default_runtime_name *= *.nvidia.' \"$f\""
        return f"""\
f={quote(generated)}
n=120
until [ -s "$f" ] && grep -q 'runtimes\\..*nvidia' "$f" && {default}; do
    n=$((n - 1))
    [ "$n" -gt 0 ] || {{ echo "$f does not have the handler nvidia as wanted"; exit 1; }}
    sleep 1
done
systemctl is-active -q {quote(unit)} || {{ echo {quote(f"{unit} doesn't run")}; exit 1; }}
"""


def told(text: str) -> str:
    """What a plan shows of their configuration: the line in question. Around it stands the cluster's token."""
    return "".join(line for line in text.splitlines(keepends=True) if "default-runtime" in line)
