"""The cluster with a real kube-apiserver and etcd, from a folder as envtest keeps them (KUBEBUILDER_ASSETS)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.apiserver.server import Request
from tests.cluster.certificates import Authority, Pair, private_pem
from tests.cluster.client import ApiError
from tests.cluster.cluster import Cluster, ClusterError

_AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


class RealCluster(Cluster):
    """See ``Cluster``. Requests are read from the audit log."""

    def __init__(self, authority: Authority, port: int, assets: Path, folder: Path) -> None:
        self._assets = assets
        self._folder = folder
        self._etcd_port = _free_port()
        self._told = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        super().__init__(authority, port)
        version = subprocess.run([assets / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
        self.ran = f"kube-apiserver ({version.stdout.strip()})"

    @classmethod
    def launch(cls, assets: Path, port: int = 0) -> RealCluster:
        authority, folder = Authority(), Path(tempfile.mkdtemp(prefix="test-cluster-"))
        made = cls(authority, port or _free_port(), assets, folder)
        (folder / "ca.crt").write_bytes(authority.pem)
        authority.server().write(folder, "server")
        key = ec.generate_private_key(ec.SECP256R1())
        Pair(b"", private_pem(key)).write(folder, "accounts")
        (folder / "audit.yaml").write_text(_AUDIT)
        try:
            made._etcd()
            made.back()
            made._begin()
        except BaseException:
            made.stop()
            raise
        return made

    def _etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{_free_port()}"
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def _run(self, name: str, *options: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._assets / name, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )

    def back(self) -> None:
        folder = self._folder
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'accounts.key'}",
            f"--service-account-signing-key-file={folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
            # The controller that would make their accounts does not run here.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={folder / 'audit.yaml'}",
            f"--audit-log-path={folder / 'audit.log'}",
            "--audit-log-mode=blocking",
            "--shutdown-delay-duration=0s",
        )
        end, why = time.monotonic() + 90, "not ready"
        while True:
            try:
                if self.client.text("/readyz") == "ok":
                    break
            except (OSError, ApiError) as error:
                why = str(error)
            if time.monotonic() > end or self._processes["kube-apiserver"].poll() is not None:
                log = (folder / "kube-apiserver.log").read_text(errors="replace")[-3000:]
                raise ClusterError(f"kube-apiserver did not become ready ({why}):\n{log}")
            time.sleep(0.2)
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.ensure_namespace(name)

    def away(self) -> None:
        self._kill("kube-apiserver")

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def _end(self) -> None:
        for name in ("kube-apiserver", "etcd"):
            self._kill(name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self) -> None:
        self._told = len((self._folder / "audit.log").read_text().splitlines())

    def requests(self, user: str = "", verb: str = "") -> list[Request]:
        log = self._folder / "audit.log"
        lines = log.read_text().splitlines()[self._told :] if log.exists() else []
        found = [_request(json.loads(line)) for line in lines]
        return [each for each in found if user in ("", each.user) and verb in ("", each.verb)]


def _request(event: dict[str, object]) -> Request:
    about = event.get("objectRef")
    target: dict[str, str] = about if isinstance(about, dict) else {}
    who, answered = event["user"], event.get("responseStatus")
    resource = ".".join(part for part in (target.get("resource", ""), target.get("apiGroup", "")) if part)
    if target.get("subresource"):
        resource += f"/{target['subresource']}"
    return Request(
        user=str(who["username"]) if isinstance(who, dict) else "",
        verb=str(event["verb"]),
        resource=resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        path=str(event["requestURI"]),
        code=int(answered.get("code", 0)) if isinstance(answered, dict) else 0,
        time=datetime.fromisoformat(str(event["requestReceivedTimestamp"])).timestamp(),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
