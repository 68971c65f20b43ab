"""kubectl gets its arguments as they are, here and on a host; what keeps it from working is said and typed."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.errors import ApiUnreachable, KubectlMissing, KubeError, NotFound, Unreachable
from provisioner.kube import onhost
from provisioner.kube.choice import kubectl_of
from provisioner.kube.onhost import HostKubectl
from provisioner.kube.proxy import KubectlProxy
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


def test_a_proxy_that_ends_is_a_typed_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'error: context "x; y" does not exist'
    program(tmp_path, f"echo '{said}' >&2; exit 1", monkeypatch)
    with pytest.raises(KubectlMissing, match="configuration") as failed:
        KubectlProxy(tmp_path / "a b", "x; y").request("get", "/version")
    assert said in failed.value.why


def test_arguments_arrive_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f'printf "%s\\n" "$@" >"{tmp_path}/seen"; exit 1', monkeypatch)
    with pytest.raises(KubeError):
        KubectlProxy(tmp_path / "a b", "x; y").request("get", "/version")
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen[:3] == [f"--kubeconfig={tmp_path / 'a b'}", "--context=x; y", "proxy"]
    assert seen[3].startswith("--unix-socket=")


def test_a_proxy_that_serves_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f'echo $$ >"{tmp_path}/pid"; exec sleep 60', monkeypatch)
    monkeypatch.setattr("provisioner.kube.proxy._START", 0.3)
    with pytest.raises(KubeError, match="kubectl proxy") as failed:
        KubectlProxy().request("get", "/version")
    assert "served nothing" in failed.value.why
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_missing_kubectl_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlMissing, match="no kubectl on this machine"):
        KubectlProxy()


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], HostKubectl]:
    """kubectl of a "host" that is this machine's shell, with one program in its PATH and no other."""
    places = "$PATH:/usr/local/bin:/var/lib/rancher/rke2/bin:/snap/bin"
    assert places in onhost._FIND
    monkeypatch.setattr(onhost, "_FIND", onhost._FIND.replace(places, str(tmp_path)))

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
    said = kubectl.request("create", "/a?b=$(touch x)'", '{"a": "it\'s %s \\n"}\n')
    lines = said.splitlines()
    assert lines[:2] == ["--kubeconfig=/etc/a b", "--context=it's"]
    assert lines[3:] == ["create", "--raw", "/a?b=$(touch x)'", "-f", "-", '{"a": "it\'s %s \\n"}']


def test_on_a_host_a_patch_names_its_object(on_host: OnHost) -> None:
    kubectl = on_host("kubectl", 'printf "%s\\n" "$@"; /bin/cat')
    said = kubectl.request("patch", "/api/v1/nodes/gpu%2001?fieldManager=me", '{"spec": {}}').splitlines()
    assert said[3:6] == ["patch", "nodes", "gpu 01"]
    assert {"--type=merge", "--field-manager=me"} <= set(said)
    assert said[-1] == '{"spec": {}}'


def test_on_a_host_k3s_serves_too(on_host: OnHost) -> None:
    said = on_host("k3s", 'printf "%s\\n" "$@"').request("get", "/version")
    assert said.splitlines()[0] == "kubectl"


def test_a_host_without_kubectl_is_named(on_host: OnHost) -> None:
    with pytest.raises(KubectlMissing, match="no kubectl on h1"):
        on_host("nothing", "").request("get", "/version")


def test_a_failure_on_a_host_is_typed(on_host: OnHost) -> None:
    kubectl = on_host("kubectl", "echo 'Error from server (NotFound): it is not there' >&2; exit 1")
    with pytest.raises(NotFound):
        kubectl.request("create", "/x", "{}")


def test_a_host_that_is_away_is_an_api_that_is_away() -> None:
    executor = FakeExecutor("h1", [Unreachable("no route")])
    with pytest.raises(ApiUnreachable, match="kubectl on h1"):
        HostKubectl(executor).request("get", "/version")


def test_the_inventory_chooses() -> None:
    executor = FakeExecutor(Host("h1", Connection("h1")), [Completed(0, b"{}", b"")])
    assert kubectl_of(Cluster(kubectl_on="h1"), executor).request("get", "/version") == "{}"
    assert isinstance(kubectl_of(Cluster(), None), KubectlProxy)
