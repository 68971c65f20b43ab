"""k3s and RKE2: they write containerd's configuration themselves, so the handler goes through their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provisioner.containerd import Mode, edit_own_config, generated_problems, own_config
from provisioner.containerd import Refusal as NotEdited
from provisioner.facts.files import FileProbe
from provisioner.facts.kubelet import Kubelet
from provisioner.model.action import Guarded, Restore, Run, Service, WriteFile
from provisioner.model.change import Change, Disruption, Finding, Kind, Refusal
from provisioner.model.fact import Facts, Probe
from provisioner.quoting import quote

FLAVOURS = ("k3s", "rke2")


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
        flavour = "rke2" if kubelet.unit.startswith("rke2") else "k3s"
        path, generated = own_config(flavour), generated_path(flavour)
        if needs is None:
            yield Refusal(path, "the toolkit's runtime is not there, and nothing in this plan brings it")
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
        if not edited.changed and (not text or not problems):
            return
        unit = f"{kubelet.unit}.service"
        after = edited.result.decode("utf-8", "surrogateescape")
        write = (WriteFile(path, after, mode=None if have else 0o600, keep_previous=True),) if edited.changed else ()
        why = "; ".join(note.rstrip(".") for note in edited.notes) if edited.changed else problems[0].message
        yield Change(
            path if edited.changed else unit,
            why if edited.changed else f"restarted: {why}",
            (Kind.UPDATE if have else Kind.CREATE) if edited.changed else Kind.RUN,
            (
                Guarded(
                    (*write, Service(unit, state="restarted", timeout=300.0)),
                    check=self._check(generated),
                    undo=(Restore(path), Service(unit, state="restarted", timeout=300.0)),
                    what=f"the file that {flavour} generates",
                    timeout=180.0,
                ),
            )
            if kubelet.active
            else (*write, Run(":", f"{unit} reads it at its next start")),
            before=before if edited.changed else None,
            after=after if edited.changed else None,
            disruption=Disruption.SERVICE if kubelet.active else Disruption.NONE,
            disrupts=f"restarts {unit}" if kubelet.active else "",
            requires=needs,
        )

    def _check(self, generated: str) -> str:
        """sh: wait until the generated file has the handler, and nvidia as the default where that is wanted."""
        default = "&& grep -q 'default_runtime_name *= *.nvidia.' \"$f\"" if self.mode is Mode.DEFAULT else ""
        return f"""\
f={quote(generated)}
n=120
until [ -s "$f" ] && grep -q 'runtimes\\..*nvidia' "$f" {default}; do
    n=$((n - 1))
    [ "$n" -gt 0 ] || {{ echo "$f does not have the handler nvidia as wanted"; exit 1; }}
    sleep 1
done
"""
