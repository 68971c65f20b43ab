"""What kubectl says on standard error, as typed errors. Pure.

kubectl prints an API status as `Error from server (REASON): MESSAGE` (client-go's and kubectl's
`StandardErrorMessage`), an invalid object as `The KIND "NAME" is invalid: …`, and failures below HTTP in its own
words.
"""

from __future__ import annotations

import re

from provisioner.errors import (
    ApiUnreachable,
    Conflict,
    EvictionBlocked,
    Forbidden,
    Invalid,
    KubectlMissing,
    KubeError,
    NotFound,
    TooManyRequests,
)

_STATUS = re.compile(r"Error from server(?: \((?P<reason>\w+)\))?: (?P<message>.*)", re.DOTALL)
_CANNOT = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"(?: in API group "(?P<group>[^"]*)")?')
_TRANSIENT = frozenset({"ServiceUnavailable", "InternalError", "Timeout", "ServerTimeout"})
_NO_ANSWER = (
    "unable to connect to the server",
    "was refused - did you specify the right host or port",
    "connection refused",
    "connection reset",
    "no route to host",
    "i/o timeout",
    "tls handshake timeout",
    "client.timeout exceeded",
    "context deadline exceeded",
    "unexpected eof",
    "http2: client connection lost",
    "the server is currently unable to handle the request",
    "etcdserver:",
)
_CONFIGURATION = (
    "error loading config",
    "invalid configuration",
    "does not exist",
    "no such file or directory",
    "unable to read",
    "no configuration has been provided",
    "exec plugin",
    "getting credentials",
)
REMEDY_RBAC = "give this user the verbs of templates/rbac/provision-upgrade.yaml"


def failure(doing: str, stderr: str) -> KubeError:
    """The error that kubectl's standard error means. `doing` says what was asked of it, for the message."""
    text = " ".join(line for line in stderr.strip().splitlines() if not _noise(line)).strip() or "it said nothing"
    low = text.lower()
    found = _STATUS.search(text)
    reason, message = (found["reason"] or "", found["message"]) if found else ("", text)
    what = f"the cluster's API refused: {doing}"
    if reason == "NotFound":
        return NotFound(f"the cluster has nothing like that: {doing}", why=message)
    if reason in ("Conflict", "AlreadyExists"):
        return Conflict(f"it has changed meanwhile: {doing}", why=message)
    if reason == "Forbidden":
        return _forbidden(doing, message)
    if reason == "TooManyRequests":
        if "disruption budget" in low:
            return EvictionBlocked(f"a disruption budget allows it not now: {doing}", why=message)
        return TooManyRequests(f"the cluster's API asks to come back later: {doing}", why=message)
    if reason == "Unauthorized" or "(unauthorized)" in low:
        return Forbidden(what, why=message, remedy="renew the credentials of the kubeconfig")
    unreachable = ApiUnreachable(
        f"the cluster's API doesn't answer: {doing}",
        why=message,
        remedy="see whether the API server is up and can be reached from where kubectl runs",
    )
    if reason in _TRANSIENT or (not found and any(sign in low for sign in _NO_ANSWER)):
        # A certificate that isn't trusted gets no better by waiting.
        if "x509" in low or "certificate" in low:
            return KubectlMissing(
                "kubectl doesn't trust the API server", why=message, remedy="correct the kubeconfig's authority"
            )
        return unreachable
    if reason in ("Invalid", "BadRequest", "MethodNotAllowed", "UnsupportedMediaType") or " is invalid:" in text:
        return Invalid(what, why=message, remedy="this is a mistake of provision; please report it with this text")
    if not found and any(sign in low for sign in _CONFIGURATION):
        return KubectlMissing(
            "kubectl can't use its configuration",
            why=message,
            remedy="correct kubeconfig and context of the inventory's [cluster], or KUBECONFIG",
        )
    if found and not reason:
        return unreachable
    return KubeError(f"kubectl failed: {doing}", why=message)


def _noise(line: str) -> bool:
    """Warnings and klog lines, which come with successes too."""
    return line.startswith("Warning:") or re.match(r"[EWI]\d{4} \d\d:", line) is not None


def _forbidden(doing: str, message: str) -> Forbidden:
    named = _CANNOT.search(message)
    if not named:
        return Forbidden(f"the cluster forbids it: {doing}", why=message)
    resource = named["resource"] + (f".{named['group']}" if named["group"] else "")
    return Forbidden(
        f"this user may not {named['verb']} {resource}",
        why=message,
        remedy=REMEDY_RBAC,
        verb=named["verb"],
        resource=named["resource"],
    )
