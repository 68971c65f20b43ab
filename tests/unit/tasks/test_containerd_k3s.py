"""The task `containerd` on k3s and RKE2, whose generated file is never edited."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.facts.files import FileProbe, FileState
from provisioner.facts.kubelet import Kubelet, KubeletProbe
from provisioner.model.action import Guarded, Restore, Service, WriteFile
from provisioner.model.change import Change, Disruption, Kind, Note, Refusal
from provisioner.tasks.containerd import Containerd
from provisioner.tasks.containerd_k3s import generated_path
from provisioner.tasks.context import Context
from provisioner.tasks.proof import assert_settles, changes, context_of, findings
from tests.unit.containerd.seen import BINARY, CASES

GENERATED = CASES.parent / "generated"
GOOD = (GENERATED / "k3s-config-v2.toml").read_text()
"""With the handler nvidia, the default."""
BARE = GOOD[: GOOD.index('[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia"]')].replace(
    '  default_runtime_name = "nvidia"\n', ""
)
"""As k3s writes it where it finds no toolkit."""
HANDLER_ONLY = GOOD.replace('  default_runtime_name = "nvidia"\n', "")
OWN = "/etc/rancher/k3s/config.yaml"
YAML = "# ours\nnode-name: gpu01\nkubelet-arg:\n  - max-pods=50\ntoken: K10c0ffee::server:decaf\n"
AGENT = Kubelet("k3s-agent", True, "systemd")


def file(text: str, mode: int = 0o600) -> FileState:
    return FileState("file", mode, "root", "root", len(text), text)


def host(own: str | None, generated: str | None, kubelet: Kubelet = AGENT, *, toolkit: bool = True) -> dict[Any, Any]:
    flavour = "rke2" if kubelet.unit.startswith("rke2") else "k3s"
    return {
        KubeletProbe(): kubelet,
        FileProbe(BINARY, content=False): file("") if toolkit else None,
        FileProbe(f"/etc/rancher/{flavour}/config.yaml"): None if own is None else file(own),
        FileProbe(generated_path(flavour)): None if generated is None else file(generated),
    }


def context(mode: str = "default", **more: Any) -> Context:
    return context_of({"containerd.mode": mode}, **more)


def one(facts: dict[Any, Any], ctx: Context) -> Change:
    (change,) = changes(Containerd(), facts, ctx)
    return change


def test_default_mode_writes_one_line_and_restarts_the_agent() -> None:
    (change,) = assert_settles(
        Containerd(),
        before=host(YAML, BARE),
        after=host(YAML + "default-runtime: nvidia\n", GOOD),
        ctx=context(),
    )
    assert (change.subject, change.kind, change.disruption) == (OWN, Kind.UPDATE, Disruption.SERVICE)
    assert change.disrupts == "restarts k3s-agent.service"
    assert (change.before, change.after) == ("", "default-runtime: nvidia\n"), "the token beside it isn't shown"
    (guarded,) = change.actions
    assert isinstance(guarded, Guarded)
    assert guarded.actions == (
        WriteFile(OWN, YAML + "default-runtime: nvidia\n", keep_previous=True),
        Service("k3s-agent.service", state="restarted", timeout=300.0),
    )
    assert guarded.undo[0] == Restore(OWN)
    assert generated_path("k3s") in guarded.check
    assert "default_runtime_name" in guarded.check
    assert "config.toml" not in " ".join(a.path for a in guarded.actions if isinstance(a, WriteFile))


@pytest.mark.parametrize(
    ("unit", "path"),
    [
        ("k3s", "/etc/rancher/k3s/config.yaml"),
        ("k3s-agent", "/etc/rancher/k3s/config.yaml"),
        ("rke2-server", "/etc/rancher/rke2/config.yaml"),
        ("rke2-agent", "/etc/rancher/rke2/config.yaml"),
    ],
)
def test_servers_and_agents_of_both(unit: str, path: str) -> None:
    change = one(host(None, None, Kubelet(unit, True)), context())
    assert (change.subject, change.kind, change.after) == (path, Kind.CREATE, "default-runtime: nvidia\n")
    (guarded,) = change.actions
    assert isinstance(guarded, Guarded)
    assert guarded.actions[0] == WriteFile(path, "default-runtime: nvidia\n", mode=0o600, keep_previous=True)
    assert guarded.actions[1] == Service(f"{unit}.service", state="restarted", timeout=300.0)


def test_runtimeclass_mode_needs_only_their_own_detection() -> None:
    ctx = context("runtimeclass")
    (change,) = assert_settles(Containerd(), before=host(YAML, BARE), after=host(YAML, HANDLER_ONLY), ctx=ctx)
    assert (change.subject, change.kind) == ("k3s-agent.service", Kind.RUN)
    (guarded,) = change.actions
    assert isinstance(guarded, Guarded)
    assert [type(action) for action in guarded.actions] == [Service]


def test_from_default_to_runtimeclass_the_line_goes() -> None:
    change = one(host(YAML + "default-runtime: nvidia\n", GOOD), context("runtimeclass"))
    assert (change.before, change.after) == ("default-runtime: nvidia\n", "")
    (guarded,) = change.actions
    assert isinstance(guarded, Guarded)
    assert "! grep -q 'default_runtime_name" in guarded.check


def test_the_configuration_is_right_and_the_generated_file_is_old() -> None:
    own = YAML + "default-runtime: nvidia\n"
    assert one(host(own, BARE), context()).summary.startswith("restarted: The generated file has no handler nvidia")
    assert not changes(Containerd(), host(own, None), context()), "not generated yet: nothing to judge"


def test_one_that_does_not_run_is_not_started() -> None:
    stopped = Kubelet("k3s-agent", False)
    change = one(host(YAML, BARE, stopped), context())
    assert [type(action) for action in change.actions] == [WriteFile]
    assert change.disruption is Disruption.NONE
    (note,) = findings(Containerd(), host(YAML + "default-runtime: nvidia\n", BARE, stopped), context())
    assert isinstance(note, Note)


def test_yaml_in_flow_style_is_refused_with_the_file_to_edit() -> None:
    (refused,) = findings(Containerd(), host("{node-name: gpu01}\n", BARE), context())
    assert isinstance(refused, Refusal)
    assert OWN in refused.what
    assert "default-runtime: nvidia" in refused.remedy


def test_the_toolkit_must_be_there_or_come() -> None:
    (refused,) = findings(Containerd(), host(YAML, BARE, toolkit=False), context())
    assert isinstance(refused, Refusal)
    assert refused.remedy
    change = one(host(YAML, BARE, toolkit=False), context(planned=("packages/toolkit:packages",)))
    assert change.requires == ("packages/toolkit:packages",)
