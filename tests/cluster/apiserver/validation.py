"""What the API server refuses to store, with its texts: names, labels, unknown fields, and each kind's own rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cluster.apiserver.kinds import Kind, Object
from tests.cluster.apiserver.problem import Problem, invalid

Cause = tuple[str, str, str]

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_QUALIFIED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
ANNOTATIONS_LIMIT = 256 * 1024

_METADATA = {
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
}  # fmt: skip
_TOP = {
    "ConfigMap": {"data", "binaryData", "immutable"},
    "Secret": {"data", "stringData", "type", "immutable"},
    "ServiceAccount": {"secrets", "imagePullSecrets", "automountServiceAccountToken"},
    "Event": {
        "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
        "eventTime", "series", "action", "related", "reportingComponent", "reportingInstance",
    },
    "ClusterRole": {"rules", "aggregationRule"},
    "Role": {"rules"},
    "ClusterRoleBinding": {"subjects", "roleRef"},
    "RoleBinding": {"subjects", "roleRef"},
    "Lease": {"spec"},
    "Binding": {"target"},
    "Eviction": {"deleteOptions"},
}  # fmt: skip
_SPEC = {
    "Lease": {
        "holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions", "strategy",
        "preferredHolder",
    },
    "Node": {"podCIDR", "podCIDRs", "providerID", "unschedulable", "taints", "configSource", "externalID"},
    "PodDisruptionBudget": {"minAvailable", "maxUnavailable", "selector", "unhealthyPodEvictionPolicy"},
    "DaemonSet": {"selector", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"},
}  # fmt: skip
_INTEGERS = {
    "Lease": ("leaseDurationSeconds", "leaseTransitions"),
    "Pod": ("terminationGracePeriodSeconds", "activeDeadlineSeconds", "priority"),
}
_BOOLEANS = {"Node": ("unschedulable",), "Pod": ("hostNetwork", "hostPID")}
_TIMES = {"Lease": ("acquireTime", "renewTime")}


def check_fields(kind: Kind, item: Object) -> list[str]:
    """Texts on fields that the kind does not have. Raises Problem 400 for values of a wrong type."""
    unknown = [f'unknown field "metadata.{key}"' for key in item.get("metadata") or {} if key not in _METADATA]
    known = {"apiVersion", "kind", "metadata"} | _TOP.get(kind.kind, {"spec", "status"})
    unknown += [f'unknown field "{key}"' for key in item if key not in known]
    spec = item.get("spec") or {}
    if kind.kind in _SPEC:
        unknown += [f'unknown field "spec.{key}"' for key in spec if key not in _SPEC[kind.kind]]
    _types(kind, item)
    return unknown


def _types(kind: Kind, item: Object) -> None:
    meta, spec = item.get("metadata"), item.get("spec") or {}
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        raise _decode(kind, "cannot unmarshal into Go struct field of type map")
    for field in ("labels", "annotations"):
        values = meta.get(field) or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise _decode(kind, f"cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string")
    checks: list[tuple[Mapping[str, tuple[str, ...]], Callable[[Any], bool], str]] = [
        (_INTEGERS, lambda value: isinstance(value, int) and not isinstance(value, bool), "int32"),
        (_BOOLEANS, lambda value: isinstance(value, bool), "bool"),
        (_TIMES, lambda value: isinstance(value, str) and bool(_MICRO_TIME.match(value)), "MicroTime"),
    ]
    for table, right, name in checks:
        for field in table.get(kind.kind, ()):
            if spec.get(field) is not None and not right(spec[field]):
                raise _decode(kind, f"spec.{field}: {spec[field]!r} is not of type {name}")
    if kind.kind == "Event":
        for field, pattern in (("eventTime", _MICRO_TIME), ("firstTimestamp", _TIME), ("lastTimestamp", _TIME)):
            if item.get(field) is not None and not pattern.match(str(item[field])):
                raise _decode(kind, f"{field}: {item[field]!r} is not a time in the right form")


def _decode(kind: Kind, text: str) -> Problem:
    group = f"{kind.group}/" if kind.group else ""
    return Problem(400, f'{kind.kind} in version "{kind.version}" cannot be handled as a {group}{kind.kind}: {text}')


def check(kind: Kind, item: Object, old: Object | None) -> None:
    """Raises Problem 422 for an object (new, or changed from ``old``) that can't be stored."""
    causes = [*_metadata(kind, item), *_OWN_RULES.get(kind.kind, _nothing)(item, old)]
    if causes:
        raise invalid(kind, item["metadata"].get("name", ""), *causes)


def _nothing(item: Object, old: Object | None) -> Iterator[Cause]:
    yield from ()


def _metadata(kind: Kind, item: Object) -> Iterator[Cause]:
    meta = item["metadata"]
    name = meta.get("name", "")
    if not name:
        yield "metadata.name", "FieldValueRequired", "Required value: name or generateName is required"
    elif not kind.group.startswith("rbac") and (len(name) > 253 or not _SUBDOMAIN.match(name)):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        yield "metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {text}'
    for key, value in (meta.get("labels") or {}).items():
        yield from _qualified("metadata.labels", key)
        if value and (len(value) > 63 or not _QUALIFIED.match(value)):
            text = (
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
                "must start and end with an alphanumeric character"
            )
            if len(value) > 63:
                text = "must be no more than 63 bytes"
            yield "metadata.labels", "FieldValueInvalid", f'Invalid value: "{value}": {text}'
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from _qualified("metadata.annotations", key.lower())
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield "metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"
    for finalizer in meta.get("finalizers") or []:
        if "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield "metadata.finalizers", "FieldValueInvalid", f'Invalid value: "{finalizer}": {text}'


def _qualified(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    good = len(name) <= 63 and _QUALIFIED.match(name) and (not slash or _SUBDOMAIN.match(prefix))
    if not good:
        text = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )
        yield field, "FieldValueInvalid", f'Invalid value: "{key}": {text}'


def _pod(item: Object, old: Object | None) -> Iterator[Cause]:
    spec = item.get("spec") or {}
    if old is not None:
        mutable = (
            "containers",
            "initContainers",
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
        )
        before = {key: value for key, value in old["spec"].items() if key not in mutable}
        if before != {key: value for key, value in spec.items() if key not in mutable}:
            text = (
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
                "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
                "previously negative)"
            )
            yield "spec", "FieldValueForbidden", text
        return
    if not spec.get("containers"):
        yield "spec.containers", "FieldValueRequired", "Required value"
    for field in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(field) or []):
            where = f"spec.{field}[{number}]"
            for needed in ("name", "image"):
                if not container.get(needed):
                    yield f"{where}.{needed}", "FieldValueRequired", "Required value"
            resources = container.get("resources") or {}
            for name, amount in (resources.get("requests") or {}).items():
                if "/" in name and (resources.get("limits") or {}).get(name) != amount:
                    text = "Required value: Limit must be set for non overcommitable resources"
                    yield f"{where}.resources.limits", "FieldValueRequired", text


def _event(item: Object, old: Object | None) -> Iterator[Cause]:
    about, namespace = item.get("involvedObject") or {}, item["metadata"].get("namespace", "")
    fits = namespace == about.get("namespace") if about.get("namespace") else namespace in ("default", "kube-system")
    if not fits:
        text = f'Invalid value: "{about.get("namespace", "")}": does not match event.namespace'
        yield "involvedObject.namespace", "FieldValueInvalid", text


def _budget(item: Object, old: Object | None) -> Iterator[Cause]:
    spec = item.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "Invalid value: minAvailable and maxUnavailable cannot be both set"
        yield "spec", "FieldValueInvalid", text


def _set(item: Object, old: Object | None) -> Iterator[Cause]:
    spec = item.get("spec") or {}
    if not spec.get("selector"):
        yield "spec.selector", "FieldValueRequired", "Required value"
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        text = "Invalid value: `selector` does not match template `labels`"
        yield "spec.template.metadata.labels", "FieldValueInvalid", text


def _lease(item: Object, old: Object | None) -> Iterator[Cause]:
    spec = item.get("spec") or {}
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        yield "spec.leaseDurationSeconds", "FieldValueInvalid", "Invalid value: must be greater than 0"
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        yield "spec.leaseTransitions", "FieldValueInvalid", "Invalid value: must be greater than or equal to 0"


_OWN_RULES: dict[str, Callable[[Object, Object | None], Iterator[Cause]]] = {
    "Pod": _pod,
    "Event": _event,
    "PodDisruptionBudget": _budget,
    "DaemonSet": _set,
    "ReplicaSet": _set,
    "Lease": _lease,
}
