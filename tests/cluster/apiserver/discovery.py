"""What kubectl asks before its first real request: versions, groups, resources and OpenAPI documents."""

from __future__ import annotations

from tests.cluster.apiserver.kinds import GROUPS, KINDS, Kind, Object

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+test",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _kinds(group: str, version: str) -> list[Kind]:
    return [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]


def aggregated(groups: tuple[tuple[str, str], ...]) -> Object:
    """All groups with their resources in one document."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [{"version": version, "freshness": "Current", "resources": _all(group, version)}],
        }
        for group, version in groups
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _all(group: str, version: str) -> list[Object]:
    return [
        {
            "resource": kind.plural,
            "responseKind": _gvk(group, version, kind.kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.kind.lower(),
            "verbs": list(kind.verbs),
            "shortNames": list(kind.short),
            "subresources": [
                {"subresource": name, "responseKind": _gvk(*served), "verbs": _sub_verbs(name)}
                for name, served in kind.subresources.items()
            ],
        }
        for kind in _kinds(group, version)
    ]


def _gvk(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def _sub_verbs(name: str) -> list[str]:
    return {"status": ["get", "patch", "update"], "log": ["get"]}.get(name, ["create"])


def document(path: str) -> Object | None:
    """The answer to an unaggregated discovery request; None where the path is none."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*each) for each in GROUPS]}
    if path == "/openapi/v3":
        names = ["api/v1", *(f"apis/{group}/{version}" for group, version in GROUPS)]
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}
    for group, version in (("", "v1"), *GROUPS):
        prefix = f"apis/{group}/{version}" if group else "api/v1"
        if path == f"/{prefix}":
            return _resources(group, version)
        if path == f"/openapi/v3/{prefix}":
            return _openapi(group, version, prefix)
        if group and path == f"/apis/{group}":
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, version)
    return None


def _group(group: str, version: str) -> Object:
    served = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def _resources(group: str, version: str) -> Object:
    listed: list[Object] = []
    for kind in _kinds(group, version):
        own = {"singularName": kind.kind.lower(), "namespaced": kind.namespaced, "kind": kind.kind}
        listed.append({"name": kind.plural, **own, "verbs": list(kind.verbs), "shortNames": list(kind.short)})
        for name, (sub_group, sub_version, sub_kind) in kind.subresources.items():
            served = {"group": sub_group, "version": sub_version, "kind": sub_kind}
            listed.append(
                {"name": f"{kind.plural}/{name}", **own, **served, "singularName": "", "verbs": _sub_verbs(name)}
            )
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _openapi(group: str, version: str, prefix: str) -> Object:
    """Only what tells kubectl that the server checks fields itself, so that it needs no schemas."""
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths = {}
    for kind in _kinds(group, version):
        where = "namespaces/{namespace}/" if kind.namespaced else ""
        operation = {
            "x-kubernetes-group-version-kind": _gvk(group, version, kind.kind),
            "parameters": [parameter],
            "responses": {},
        }
        paths[f"/{prefix}/{where}{kind.plural}/{{name}}"] = {"patch": operation}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": {}},
    }
