"""The cluster with the API server of these tests, in a thread of this process."""

from __future__ import annotations

import copy
import json
import threading
from dataclasses import asdict
from pathlib import Path

from tests.cluster.apiserver.access import ADMINS, User
from tests.cluster.apiserver.kinds import BY_KIND, Object
from tests.cluster.apiserver.server import ApiServer, Request
from tests.cluster.apiserver.store import Store
from tests.cluster.apiserver.verbs import Call, Verbs
from tests.cluster.certificates import Authority, kubeconfig, server_context
from tests.cluster.cluster import Cluster

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_RBAC = "rbac.authorization.k8s.io"


class LocalCluster(Cluster):
    """See ``Cluster``."""

    ran = "the API server of these tests"

    def __init__(self, authority: Authority, store: Store, port: int, log: Path | None) -> None:
        self._store = store
        self._heard: list[Request] = []
        self._log = log
        self._context = server_context(authority)
        self._tokens: dict[str, User] = {}
        self._server = self._serve(port)
        super().__init__(authority, self._server.server_address[1])

    @classmethod
    def launch(cls, port: int = 0, log: Path | None = None) -> LocalCluster:
        store = Store()
        _furnish(store)
        made = cls(Authority(), store, port, log)
        made._begin()
        return made

    def _serve(self, port: int) -> ApiServer:
        server = ApiServer(self._store, self._context, self._hear, port)
        server.tokens = self._tokens
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def _hear(self, request: Request) -> None:
        self._heard.append(request)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps(asdict(request)) + "\n")

    def _forget(self) -> None:
        self._heard.clear()

    def _end(self) -> None:
        self._store.close()
        self.away()

    def away(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.broken = "the API server is shutting down"
        self._server.drop_connections()

    def back(self) -> None:
        self._server = self._serve(self.port)

    def requests(self, user: str = "", verb: str = "") -> list[Request]:
        return [each for each in list(self._heard) if user in ("", each.user) and verb in ("", each.verb)]

    def node(self, name: str) -> Object:
        """From the store, so that a test may look a thousand times a second."""
        found = self._store.get(BY_KIND["", "Node"], "", name)
        return copy.deepcopy(found.item) if found is not None else super().node(name)

    def errors(self, text: str) -> None:
        """From now on every request is answered 503 with this text; an empty one ends that."""
        self._server.broken = text

    def token_kubeconfig(self, path: Path, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig with a bearer token instead of a certificate."""
        token = f"token-of-{user.replace(':', '-')}"
        self._tokens[token] = User(user, groups)
        path.touch(mode=0o600)
        path.write_text(kubeconfig(f"https://127.0.0.1:{self.port}", self.authority, token, user))
        return path


def _furnish(store: Store) -> None:
    """What every cluster has from the start."""
    verbs, call = Verbs(store), Call(User("system:apiserver", (ADMINS,)), manager="kube-apiserver")
    for name in _NAMESPACES:
        verbs.create(
            BY_KIND["", "Namespace"], "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, call
        )
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    role: Object = {"metadata": {"name": "cluster-admin"}, "rules": [everything]}
    verbs.create(BY_KIND[_RBAC, "ClusterRole"], "", {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole"} | role, call)
