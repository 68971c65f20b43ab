"""The API over HTTPS: authentication, authorization, dispatch, watches, and a log of what was asked."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cluster.apiserver import discovery, pods, protobuf
from tests.cluster.apiserver.access import Attempt, User, allowed, review
from tests.cluster.apiserver.kinds import GROUPS, Kind, Object
from tests.cluster.apiserver.problem import Problem, forbidden, not_found, unknown_path
from tests.cluster.apiserver.route import Route, parse
from tests.cluster.apiserver.selectors import fields_match, labels_match
from tests.cluster.apiserver.store import Change, Store
from tests.cluster.apiserver.verbs import Call, Verbs

WATCH_SECONDS = 1800.0
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Request:
    """One request as it was answered. ``resource`` holds the subresource; code 0 is a watch that still runs."""

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    path: str
    code: int
    time: float


class ApiServer(ThreadingHTTPServer):
    """Serves a store on 127.0.0.1. ``heard`` gets every request; ``tokens`` maps bearer tokens to users."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, store: Store, tls: ssl.SSLContext, heard: Callable[[Request], None], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.store = store
        self.verbs = Verbs(store)
        self.tls = tls
        self.heard = heard
        self.tokens: dict[str, User] = {}
        self.broken = ""
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake happens here, in the connection's own thread."""
        request.settimeout(WATCH_SECONDS)
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self.tls.wrap_socket(request, server_side=True) as wrapped:
                with self._guard:
                    self._open.add(wrapped)
                try:
                    super().finish_request(wrapped, client_address)
                finally:
                    with self._guard:
                        self._open.discard(wrapped)
        except OSError:
            return  # the client went away, or did not want this certificate

    def drop_connections(self) -> None:
        """Cuts all connections, watches included."""
        with self._guard:
            for each in self._open:
                try:
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
                except OSError:
                    continue  # closed by the client meanwhile


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: ApiServer

    def log_message(self, format: str, *args: Any) -> None:
        """The log is ``heard``."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _answer(self) -> None:
        body = self._body()
        user: User | None = None
        route = parse(self.path)
        code: int
        answer: Object | str
        try:
            if self.server.broken:
                raise Problem(503, self.server.broken)
            user = self._user()
            if route is None:
                raise unknown_path()
            if route.kind is None:
                code, answer = 200, self._unstored(route)
            else:
                verb = self._verb(route)
                self._authorize(user, verb, route)
                if verb == "watch":
                    self._watch(user, route)
                    return
                code, answer = self._resource(user, verb, route, body)
        except Problem as problem:
            code, answer = problem.code, problem.status
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"the request or the object has a form that can't be handled: {type(error).__name__}: {error}"
            code, answer = 400, Problem(400, text).status
        self._heard(user, route, code)
        self._send(code, answer)

    def _body(self) -> bytes:
        """The request's body, which ``kubectl create --raw`` sends in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue  # trailers
        return b"".join(parts)

    # --- who and what ---------------------------------------------------------------------------------
    def _user(self) -> User:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and token in self.server.tokens:
            return self.server.tokens[token]
        connection: Any = self.connection
        certificate = connection.getpeercert()
        if not certificate:
            raise Problem(401, "Unauthorized")
        parts = [pair for group in certificate["subject"] for pair in group]
        name = next((value for key, value in parts if key == "commonName"), "")
        return User(name, tuple(value for key, value in parts if key == "organizationName"))

    def _verb(self, route: Route) -> str:
        if self.command == "GET":
            return "get" if route.name else "watch" if route.flag("watch") else "list"
        if self.command == "DELETE":
            return "delete" if route.name else "deletecollection"
        return _VERBS[self.command]

    def _authorize(self, user: User, verb: str, route: Route) -> None:
        kind = route.kind
        if kind is None or kind.review:
            return
        resource = f"{kind.plural}/{route.subresource}" if route.subresource else kind.plural
        namespace = route.name if kind.kind == "Namespace" else route.namespace
        selected = route.selected_name if verb in ("list", "watch") else ""
        attempt = Attempt(user, verb, kind.group, resource, namespace, route.name, selected)
        yes, why = allowed(self.server.store, attempt)
        if not yes:
            raise forbidden(kind, route.name, attempt.refused(why))

    # --- requests -------------------------------------------------------------------------------------
    def _unstored(self, route: Route) -> Object | str:
        if route.path in ("/healthz", "/readyz", "/livez"):
            return "ok"
        if discovery.AGGREGATED in self.headers.get("Accept", "") and route.path in ("/api", "/apis"):
            return discovery.aggregated((("", "v1"),) if route.path == "/api" else GROUPS)
        found = discovery.document(route.path)
        if found is None:
            raise unknown_path()
        return found

    def _resource(self, user: User, verb: str, route: Route, body: bytes) -> tuple[int, Object | str]:
        kind, verbs = route.kind, self.server.verbs
        assert kind is not None
        place = (kind, route.namespace, route.name)
        if verb == "list":
            return 200, self._list(kind, route)
        if verb == "get":
            found = self.server.store.get(*place)
            if found is None:
                raise not_found(kind, route.name)
            if route.subresource == "log":
                return 200, (found.item["metadata"].get("annotations") or {}).get("test/log", "")
            return 200, found.item
        content = self._decoded(body)
        call = self._call(user, route)
        if verb == "delete":
            options = content | (
                {"gracePeriodSeconds": int(route.query["gracePeriodSeconds"])}
                if "gracePeriodSeconds" in route.query
                else {}
            )
            return 200, verbs.delete(*place, options, call)
        if verb == "deletecollection":
            for each in self._selected(kind, route):
                verbs.delete(kind, each["metadata"].get("namespace", ""), each["metadata"]["name"], content, call)
            return 200, self._list(kind, route)
        if verb == "create":
            return 201, self._create(user, route, content, call)
        if verb == "update":
            answer, created = verbs.update(*place, route.subresource, content, call)
        else:
            how = self.headers.get("Content-Type", "").partition(";")[0]
            answer, created = verbs.patch(*place, route.subresource, how, content, call)
        return 201 if created else 200, answer

    def _decoded(self, body: bytes) -> Any:
        if self.headers.get("Content-Type", "").partition(";")[0] == protobuf.MEDIA_TYPE:
            return protobuf.decode(body)
        return json.loads(body) if body else {}

    def _create(self, user: User, route: Route, content: Object, call: Call) -> Object:
        kind, verbs = route.kind, self.server.verbs
        assert kind is not None
        if kind.kind == "SelfSubjectAccessReview":
            return review(self.server.store, user, content)
        if kind.review:
            return content | {
                "status": {"userInfo": {"username": user.name, "groups": [*user.groups, "system:authenticated"]}}
            }
        if route.subresource == "eviction":
            return pods.evict(verbs, route.namespace, route.name, content, call)
        if route.subresource == "binding":
            return pods.bind(verbs, route.namespace, route.name, content)
        if route.name:
            raise Problem(405, "the server does not allow this method on the requested resource")
        return verbs.create(kind, route.namespace, content, call)

    def _call(self, user: User, route: Route) -> Call:
        agent = self.headers.get("User-Agent", "unknown").partition("/")[0]
        return Call(
            user,
            manager=route.query.get("fieldManager") or agent,
            dry_run=route.query.get("dryRun") == "All",
            strict=route.query.get("fieldValidation") == "Strict",
            force=route.flag("force"),
        )

    def _selected(self, kind: Kind, route: Route) -> list[Object]:
        return [item for item in self.server.store.items(kind, route.namespace) if _matches(kind, route, item)]

    def _list(self, kind: Kind, route: Route) -> Object:
        with self.server.store.lock:
            meta = {"resourceVersion": str(self.server.store.version)}
            found = self._selected(kind, route)
        items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in found]
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": items}

    # --- watches --------------------------------------------------------------------------------------
    def _watch(self, user: User, route: Route) -> None:
        kind, store = route.kind, self.server.store
        assert kind is not None
        seconds = float(route.query.get("timeoutSeconds") or WATCH_SECONDS)
        version = route.query.get("resourceVersion", "")
        initial = route.flag("sendInitialEvents")
        with store.lock:
            items = self._selected(kind, route) if version in ("", "0") or initial else []
            since = store.version if version in ("", "0") or initial else int(version)
        self._heard(user, route, 0)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for item in items:
            self._event("ADDED", item)
        if initial:
            marks = {"resourceVersion": str(since), "annotations": {"k8s.io/initial-events-end": "true"}}
            self._event("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": marks})
        try:
            for change in store.changes(kind, since, time.monotonic() + seconds):
                if self.server.broken:
                    break
                self._change(kind, route, change)
        except Problem as problem:
            self._event("ERROR", problem.status)
        self.wfile.write(b"0\r\n\r\n")

    def _change(self, kind: Kind, route: Route, change: Change | None) -> None:
        if change is None:
            return
        namespace = change.item["metadata"].get("namespace", "")
        if route.namespace not in ("", namespace):
            return
        now, before = (
            _matches(kind, route, change.item),
            change.before is not None and _matches(kind, route, change.before),
        )
        if change.event == "DELETED" or not now:
            if before:
                self._event("DELETED", change.item)
        else:
            self._event("MODIFIED" if before else "ADDED", change.item)

    def _event(self, event: str, item: Object) -> None:
        line = json.dumps({"type": event, "object": item}, separators=(",", ":")).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    # --- answers --------------------------------------------------------------------------------------
    def _heard(self, user: User | None, route: Route | None, code: int) -> None:
        kind = route.kind if route else None
        if route is None or kind is None:
            verb, resource = self.command.lower(), ""
        else:
            verb, resource = self._verb(route), kind.resource + (f"/{route.subresource}" if route.subresource else "")
        name, namespace = (route.name, route.namespace) if route else ("", "")
        self.server.heard(
            Request(user.name if user else "", verb, resource, namespace, name, self.path, code, time.time())
        )

    def _send(self, code: int, answer: Object | str) -> None:
        if isinstance(answer, str):
            self._write(code, "text/plain", answer.encode())
            return
        found = answer.get("kind") == "APIGroupDiscoveryList"
        media = f"application/json;{discovery.AGGREGATED}" if found else "application/json"
        retry = (answer.get("details") or {}).get("retryAfterSeconds") if code == 429 else None
        self._write(code, media, json.dumps(answer, separators=(",", ":")).encode(), retry)

    def _write(self, code: int, media: str, content: bytes, retry: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", media)
        if retry:
            self.send_header("Retry-After", str(retry))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def _matches(kind: Kind, route: Route, item: Object) -> bool:
    labels = item["metadata"].get("labels") or {}
    return labels_match(route.query.get("labelSelector", ""), labels) and fields_match(
        kind, route.query.get("fieldSelector", ""), item
    )
