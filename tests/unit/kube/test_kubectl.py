"""kubectl is run without a shell, bounded, and on a host with every argument quoted."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.errors import ApiUnreachable, KubectlMissing, NotFound, Unreachable
from provisioner.kube import kubectl as kubectl_module
from provisioner.kube.kubectl import ControllerKubectl, HostKubectl, kubectl_of
from provisioner.model.inventory import Cluster, Connection, Host
from provisioner.transport.executor import Completed
from provisioner.transport.fake import FakeExecutor, ShellExecutor


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl of a test's own beside the python that runs."""
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    return path


def test_arguments_arrive_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'printf "%s\\n" "$@"; cat', monkeypatch)
    kubectl = ControllerKubectl(tmp_path / "a b", "x; y")
    said = kubectl.run(["get", "--raw", "/a?b=$(c)"], stdin='{"a": 1}', timeout=7)
    assert said.splitlines() == [
        f"--kubeconfig={tmp_path / 'a b'}",
        "--context=x; y",
        "--request-timeout=7s",
        "get",
        "--raw",
        "/a?b=$(c)",
        '{"a": 1}',
    ]


def test_a_failure_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'Error from server (NotFound): nodes \"x\" not found' >&2; exit 1", monkeypatch)
    with pytest.raises(NotFound, match="kubectl get"):
        ControllerKubectl().run(["get", "--raw", "/api/v1/nodes/x"])


def test_a_silent_kubectl_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr("provisioner.kube.kubectl._GRACE", 0.1)
    began = time.monotonic()
    with pytest.raises(ApiUnreachable, match="doesn't answer"):
        ControllerKubectl().run(["get", "--raw", "/version"], timeout=0.2)
    assert time.monotonic() - began < 10


def test_a_missing_kubectl_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlMissing, match="no kubectl on this machine"):
        ControllerKubectl()


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], HostKubectl]:
    """kubectl of a "host" that is this machine's shell, with one program in its PATH and no other."""
    places = "$PATH:/usr/local/bin:/var/lib/rancher/rke2/bin:/snap/bin"
    assert places in kubectl_module._FIND
    monkeypatch.setattr(kubectl_module, "_FIND", kubectl_module._FIND.replace(places, str(tmp_path)))

    def make(name: str, text: str) -> HostKubectl:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        env = {"HOME": str(tmp_path), "KUBECONFIG": ""}
        return HostKubectl(ShellExecutor("h1", shell=("/bin/sh", "-c"), env=env), Path("/etc/a b"), "it's")

    return make


OnHost = Callable[[str, str], HostKubectl]


def test_on_a_host_values_stay_values(on_host: OnHost) -> None:
    kubectl = on_host("kubectl", 'printf "%s\\n" "$@"; /bin/cat')
    said = kubectl.run(["get", "--raw", "/a?b=$(touch x)'"], stdin='{"a": "it\'s %s \\n"}\n')
    lines = said.splitlines()
    assert lines[:2] == ["--kubeconfig=/etc/a b", "--context=it's"]
    assert lines[3:] == ["get", "--raw", "/a?b=$(touch x)'", '{"a": "it\'s %s \\n"}']


def test_on_a_host_k3s_serves_too(on_host: OnHost) -> None:
    said = on_host("k3s", 'printf "%s\\n" "$@"').run(["get", "--raw", "/version"])
    assert said.splitlines()[0] == "kubectl"


def test_a_host_without_kubectl_is_named(on_host: OnHost) -> None:
    with pytest.raises(KubectlMissing, match="no kubectl on h1"):
        on_host("nothing", "").run(["get", "--raw", "/version"])


def test_a_failure_on_a_host_is_typed(on_host: OnHost) -> None:
    kubectl = on_host("kubectl", "echo 'Error from server (NotFound): it is not there' >&2; exit 1")
    with pytest.raises(NotFound):
        kubectl.run(["get", "--raw", "/x"], stdin="{}")


def test_a_host_that_is_away_is_an_api_that_is_away() -> None:
    executor = FakeExecutor("h1", [Unreachable("no route")])
    with pytest.raises(ApiUnreachable, match="kubectl on h1"):
        HostKubectl(executor).run(["get", "--raw", "/version"])


def test_the_inventory_chooses() -> None:
    executor = FakeExecutor(Host("h1", Connection("h1")), [Completed(0, b"{}", b"")])
    assert kubectl_of(Cluster(kubectl_on="h1"), executor).run(["get", "--raw", "/version"]) == "{}"
    assert isinstance(kubectl_of(Cluster(), None), ControllerKubectl)
