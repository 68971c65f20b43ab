"""A minimal client of the API: what the agent and the tests' preparations use."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urlencode

Object = dict[str, Any]

_PATHS = {
    "nodes": "/api/v1",
    "pods": "/api/v1",
    "namespaces": "/api/v1",
    "events": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "daemonsets": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API refused; ``code`` and ``status`` are its answer."""

    def __init__(self, code: int, status: Object) -> None:
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.status = status


class Client:
    """Requests of one user; a connection each, so that it may be used from any thread."""

    def __init__(self, port: int, tls: ssl.SSLContext, agent: str = "test-agent") -> None:
        self.port = port
        self._tls = tls
        self._agent = agent

    def url(self, resource: str, namespace: str = "", name: str = "", subresource: str = "", **query: str) -> str:
        """URL of a resource by its plural name."""
        parts = [_PATHS[resource], *(("namespaces", namespace) if namespace else ()), resource, name, subresource]
        path = "/".join(part for part in parts if part)
        return path + (f"?{urlencode(query)}" if query else "")

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Object:
        """Raises ApiError for an error status, OSError or HTTPException where the API does not answer."""
        with self._answer(method, path, body, content_type, timeout=30) as answer:
            content: Object = json.loads(answer.read() or b"{}")
        if answer.status >= 400:
            raise ApiError(answer.status, content)
        return content

    def text(self, path: str) -> str:
        """An answer that is no JSON. Raises like ``request``."""
        with self._answer("GET", path, None, "application/json", timeout=10) as answer:
            content = answer.read().decode()
        if answer.status >= 400:
            raise ApiError(answer.status, {"message": content})
        return content

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        return self.request("GET", self.url(resource, namespace, name))

    def list(self, resource: str, namespace: str = "", **query: str) -> list[Object]:
        """Items, each with the kind that a list leaves out."""
        answer = self.request("GET", self.url(resource, namespace, **query))
        items: list[Object] = answer["items"]
        return items

    def create(self, resource: str, item: Object, namespace: str = "") -> Object:
        return self.request("POST", self.url(resource, namespace), item)

    def merge(self, resource: str, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        return self.request("PATCH", self.url(resource, namespace, name, subresource), patch, MERGE)

    def delete(self, resource: str, name: str, namespace: str = "", **options: Any) -> Object:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return self.request("DELETE", self.url(resource, namespace, name), body)

    def watch(self, resource: str, version: str, seconds: int) -> Iterator[Object]:
        """Events of all namespaces until the server ends it. Raises like ``request``."""
        path = self.url(resource, watch="true", resourceVersion=version, timeoutSeconds=str(seconds))
        with self._answer("GET", path, None, "application/json", timeout=seconds + 10) as answer:
            if answer.status >= 400:
                raise ApiError(answer.status, json.loads(answer.read() or b"{}"))
            while line := answer.readline():
                yield json.loads(line)

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Any, content_type: str, timeout: float
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own, closed whatever becomes of it."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=timeout)
        headers = {"User-Agent": self._agent, "Accept": "application/json", "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, quote(path, safe="/?&=%:,+"), body=data, headers=headers)
            with closing(connection.getresponse()) as answer:
                yield answer


__all__ = ["ApiError", "Client", "Object"]
