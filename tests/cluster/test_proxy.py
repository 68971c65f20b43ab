"""The kubectl that stays: what it says when the way to the API is broken, and that nothing of it outlives us."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.errors import ApiUnreachable, Forbidden, KubectlMissing, NotFound
from provisioner.kube.proxy import KubectlProxy
from tests.cluster.certificates import Authority, kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Kubectl


@pytest.fixture
def proxy(kubectl: Kubectl) -> Iterator[KubectlProxy]:
    made = KubectlProxy(kubectl.config())
    yield made
    made.close()


def sockets() -> set[Path]:
    """Sockets of kubectl proxies that are served, from the arguments of running processes."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        found |= {Path(word.removeprefix("--unix-socket=")) for word in words if word.startswith("--unix-socket=")}
    return found


def soon(true: object, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    assert callable(true)
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_an_api_that_goes_and_comes_back_needs_no_new_kubectl(cluster: Cluster, proxy: KubectlProxy) -> None:
    assert '"items"' in proxy.request("get", "/api/v1/nodes")
    before = sockets()
    with cluster.fail(), pytest.raises(ApiUnreachable, match="get /api/v1/nodes"):
        proxy.request("get", "/api/v1/nodes")
    assert '"items"' in proxy.request("get", "/api/v1/nodes")
    assert sockets() == before


def test_what_the_api_answers_is_typed(cluster: Cluster, kubectl: Kubectl, proxy: KubectlProxy) -> None:
    with pytest.raises(NotFound, match="nothing like that"):
        proxy.request("get", "/api/v1/nodes/none")
    nobody = kubectl.api("nobody")
    with pytest.raises(Forbidden) as forbidden:
        nobody.nodes()
    assert (forbidden.value.verb, forbidden.value.resource) == ("list", "nodes")


def test_an_api_that_never_answers_is_given_up(tmp_path: Path) -> None:
    authority = Authority()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        path = tmp_path / "config"
        path.touch(mode=0o600)
        path.write_text(kubeconfig(f"https://127.0.0.1:{deaf.getsockname()[1]}", authority, "token", "x"))
        proxy = KubectlProxy(path)
        began = time.monotonic()
        with pytest.raises(ApiUnreachable, match="doesn't answer"):
            proxy.request("get", "/version", timeout=0.5)
        assert time.monotonic() - began < 10
        proxy.close()


def test_an_api_that_is_not_trusted_is_no_matter_of_waiting(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch(mode=0o600)
    path.write_text(kubeconfig(f"https://127.0.0.1:{cluster.port}", Authority(), "token", "x"))
    proxy = KubectlProxy(path)
    with pytest.raises(KubectlMissing, match="doesn't trust"):
        proxy.request("get", "/version")
    proxy.close()


def test_only_this_user_reaches_the_socket_and_closing_takes_it_away(proxy: KubectlProxy) -> None:
    before = sockets()
    proxy.request("get", "/api/v1/nodes")
    (where,) = sockets() - before
    assert stat.S_IMODE(where.parent.stat().st_mode) == 0o700
    proxy.close()
    assert not where.parent.exists()
    assert soon(lambda: where not in sockets())
    assert '"items"' in proxy.request("get", "/api/v1/nodes"), "and it can be asked again"


def test_a_proxy_that_was_killed_is_started_again(proxy: KubectlProxy) -> None:
    before = sockets()
    proxy.request("get", "/api/v1/nodes")
    (where,) = sockets() - before
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes().split(b"\0") if entry.exists() else []
        if f"--unix-socket={where}".encode() in words and not words[0].endswith(b"sh"):
            os.kill(int(entry.parent.name), signal.SIGKILL)
    assert soon(lambda: where not in sockets())
    assert '"items"' in proxy.request("get", "/api/v1/nodes")


def test_nothing_outlives_a_controller_that_is_killed(kubectl: Kubectl) -> None:
    before = sockets()
    code = (
        "import sys, time; from pathlib import Path; from provisioner.kube.proxy import KubectlProxy\n"
        "KubectlProxy(Path(sys.argv[1])).request('get', '/api/v1/nodes'); print('asked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(kubectl.config())], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"asked\n"
        assert len(sockets() - before) == 1
        child.kill()
    assert soon(lambda: sockets() == before), "the proxy, with the cluster's credentials, ended with it"
