"""Errors as the API server says them: ``Status`` objects with the real reasons, codes and texts."""

from __future__ import annotations

from tests.cluster.apiserver.kinds import Kind, Object

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Problem(Exception):
    """A request that is refused. ``status`` is the body of the answer."""

    def __init__(self, code: int, message: str, *, reason: str = "", details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS[code],
            "code": code,
        }
        if details:
            self.status["details"] = details


def _details(kind: Kind, name: str, **more: object) -> Object:
    found: Object = {"name": name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {}) | more
    return {key: value for key, value in found.items() if value not in ("", None)}


def not_found(kind: Kind, name: str) -> Problem:
    return Problem(404, f'{kind.resource} "{name}" not found', details=_details(kind, name))


def unknown_path() -> Problem:
    return Problem(404, "the server could not find the requested resource", details={})


def already_exists(kind: Kind, name: str) -> Problem:
    text = f'{kind.resource} "{name}" already exists'
    return Problem(409, text, reason="AlreadyExists", details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> Problem:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    text = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Problem(409, text, details=_details(kind, name))


def forbidden(kind: Kind, name: str, why: str) -> Problem:
    subject = f'{kind.resource} "{name}"' if name else kind.resource
    return Problem(403, f"{subject} is forbidden: {why}", details=_details(kind, name))


def invalid(kind: Kind, name: str, *causes: tuple[str, str, str]) -> Problem:
    """Each cause is (field, reason, message), as ``("spec.x", "FieldValueRequired", "Required value")``."""
    texts = [f"{where}: {message}" for where, _, message in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    listed = [{"reason": reason, "message": message, "field": where} for where, reason, message in causes]
    details = {"name": name, "kind": kind.kind, "causes": listed} | ({"group": kind.group} if kind.group else {})
    return Problem(
        422, f'{kind.kind}{"." + kind.group if kind.group else ""} "{name}" is invalid: {text}', details=details
    )


def budget_violated(message: str) -> Problem:
    """What an eviction gets that a PodDisruptionBudget does not allow now."""
    causes = [{"reason": "DisruptionBudget", "message": message}]
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return Problem(429, text, details={"causes": causes})


def budget_unobserved(name: str) -> Problem:
    causes = [
        {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} is still being processed by the server.",
        }
    ]
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return Problem(429, text, details={"causes": causes, "retryAfterSeconds": 10})
