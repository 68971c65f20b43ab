"""A request's URL taken apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.cluster.apiserver.kinds import BY_RESOURCE, Kind


@dataclass(frozen=True)
class Route:
    """Where a request goes. ``kind`` is None for what is no resource (discovery, health)."""

    path: str
    kind: Kind | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: dict[str, str] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("true", "1")

    @property
    def selected_name(self) -> str:
        """The one object that a field selector narrows a list to."""
        for part in self.query.get("fieldSelector", "").split(","):
            key, _, value = part.partition("=")
            if key in ("metadata.name", "spec.nodeName"):
                return value.lstrip("=")
        return ""


def parse(url: str) -> Route | None:
    """None where the path names a resource that there isn't."""
    split = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(split.query, keep_blank_values=True).items()}
    parts = [unquote(part) for part in split.path.split("/") if part]
    path = "/" + "/".join(parts)
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Route(path, query=query)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = BY_RESOURCE.get((group, version, rest[0]))
    name, subresource = (*rest[1:], "", "")[:2]
    if kind is None or len(rest) > 3 or (subresource and subresource not in kind.subresources):
        return None
    return Route(path, kind, namespace, name, subresource, query)
