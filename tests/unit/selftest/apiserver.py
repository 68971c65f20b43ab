"""One node behind HTTPS with client certificates: what a kubelet's credentials meet, small enough for a test."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FORBIDDEN = {"taints"}


class Certificates:
    """A CA, and a certificate of it for the server (127.0.0.1) and for node gpu01, as PEM files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._openssl("req", "-x509", *self._new("ca"), "-subj", "/CN=test-ca", "-days", "2")
        self.ca.write_bytes((folder / "ca.crt").read_bytes())
        self._issue("server", "/CN=apiserver", "subjectAltName=IP:127.0.0.1")
        self._issue("node", "/O=system:nodes/CN=system:node:gpu01", "extendedKeyUsage=clientAuth")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def _new(self, name: str) -> tuple[str, ...]:
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*kind, "-keyout", f"{name}.key", "-out", f"{name}.crt")

    def _issue(self, name: str, subject: str, extension: str) -> None:
        (self.folder / f"{name}.ext").write_text(extension + "\n")
        self._openssl("req", *self._new(name), "-subj", subject)
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        self._openssl("x509", "-req", "-in", f"{name}.crt", *signed, "-out", f"{name}.pem")

    def path(self, name: str) -> str:
        return str(self.folder / name)


class Api:
    """Serves /api/v1/nodes/gpu01 with merge patches, resource versions and field managers of spec.unschedulable.

    `before` is called with the method of every request and may return a status code to answer with instead.
    """

    def __init__(self, certificates: Certificates, port: int = 0) -> None:
        self.node: dict[str, Any] = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "gpu01", "resourceVersion": "1", "labels": {"a": "b"}, "annotations": {}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"images": [{"names": ['odd "name" \\ \t é'], "sizeBytes": 1e9}], "conditions": []},
        }
        self.requests: list[tuple[str, dict[str, Any] | None]] = []
        self.tokens: list[str | None] = []
        self.before: Callable[[str], int | None] = lambda method: None
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
        context.load_verify_locations(certificates.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def cordon(self, by: str, on: bool = True) -> None:
        """As `kubectl cordon` or another tool does it."""
        self.patch({"spec": {"unschedulable": True if on else None}}, by)

    def patch(self, body: dict[str, Any], manager: str) -> None:
        had = self.node["spec"].get("unschedulable")
        merge(self.node, body)
        if self.node["spec"].get("unschedulable") != had:
            owned = [{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]
            other = {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:images": {}}}}
            self.node["metadata"]["managedFields"] = [other, *(owned if self.node["spec"].get("unschedulable") else [])]
        self.node["metadata"]["resourceVersion"] = str(int(self.node["metadata"]["resourceVersion"]) + 1)

    def answer(self, method: str, path: str, body: dict[str, Any] | None, named: bool) -> tuple[int, dict[str, Any]]:
        self.requests.append((method, body))
        early = self.before(method)
        if early:
            return early, {"kind": "Status", "message": f"made to answer {early}"}
        if not named:
            return 401, {"kind": "Status", "message": "Unauthorized"}
        if path.split("?")[0] != "/api/v1/nodes/gpu01":
            return 404, {"kind": "Status", "message": "not found"}
        if body is not None:
            if body["metadata"].get("resourceVersion") != self.node["metadata"]["resourceVersion"]:
                return 409, {"kind": "Status", "message": "the object has been modified"}
            if FORBIDDEN & set(body.get("spec", {})):
                return 403, {"kind": "Status", "message": "not allowed to modify taints"}
            body["metadata"].pop("resourceVersion")
            self.patch(body, path.partition("fieldManager=")[2])
        return 200, self.node

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                api.tokens.append(self.headers.get("Authorization"))
                assert isinstance(self.connection, ssl.SSLSocket)
                named = bool(self.connection.getpeercert()) or self.headers.get("Authorization") == "Bearer sesame"
                status, answer = api.answer(self.command, self.path, body, named)
                text = json.dumps(answer, indent=1).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PATCH = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """JSON merge patch (RFC 7396) in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
