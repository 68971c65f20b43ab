"""Objects of the cluster as dataclasses with only the fields that we use. Pure: JSON in, values out.

Field names and meanings are those of the Kubernetes API reference (core/v1, policy/v1, apps/v1,
coordination.k8s.io/v1, resource.k8s.io). What is missing in an object reads as its zero value, as in the API itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]


def _map(of: Json, *keys: str) -> Json:
    for key in keys:
        of = of.get(key) or {}
    return of


def _strings(of: Json) -> dict[str, str]:
    return {key: str(value) for key, value in of.items()}


def seconds(text: str) -> float:
    """An API timestamp (RFC 3339, Time or MicroTime) as seconds since the epoch; 0.0 for an empty one."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def timestamp(at: float) -> str:
    """Seconds since the epoch as MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def quantity(text: str) -> int:
    """A whole number of things ("8", "2k"); what isn't one counts as none."""
    scale = {"k": 10**3, "M": 10**6}.get(text[-1:], 1)
    number = text if scale == 1 else text[:-1]
    return int(number) * scale if number.isdigit() else 0


def field_owner(raw: Json, *path: str) -> str:
    """The field manager that holds a field ("spec", "unschedulable"), "" where the API doesn't tell."""
    for entry in _map(raw, "metadata").get("managedFields") or ():
        at: Json = entry.get("fieldsV1") or {}
        for key in path:
            at = at.get(f"f:{key}") if f"f:{key}" in at else None  # type: ignore[assignment]
            if at is None:
                break
        if at is not None:
            return str(entry.get("manager", ""))
    return ""


@dataclass(frozen=True)
class Node:
    """A node. `version` is its resourceVersion; `cordoned_by` the field manager that holds spec.unschedulable;
    `allocatable` and `capacity` hold whole numbers of resources under nvidia.com/ only."""

    name: str
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    cordoned_by: str = ""
    taints: tuple[Json, ...] = ()
    ready: bool = False
    machine_id: str = ""
    boot_id: str = ""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    uid: str = ""


def node(raw: Json) -> Node:
    """A Node object."""
    meta, spec, status = _map(raw, "metadata"), _map(raw, "spec"), _map(raw, "status")
    info = _map(status, "nodeInfo")
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return Node(
        name=str(meta.get("name", "")),
        version=str(meta.get("resourceVersion", "")),
        labels=_strings(_map(meta, "labels")),
        annotations=_strings(_map(meta, "annotations")),
        unschedulable=bool(spec.get("unschedulable", False)),
        cordoned_by=field_owner(raw, "spec", "unschedulable"),
        taints=tuple(spec.get("taints") or ()),
        ready=ready,
        machine_id=str(info.get("machineID", "")),
        boot_id=str(info.get("bootID", "")),
        allocatable=_cards(_map(status, "allocatable")),
        capacity=_cards(_map(status, "capacity")),
        images=tuple(name for image in status.get("images") or () for name in image.get("names") or ()),
        uid=str(meta.get("uid", "")),
    )


def _cards(resources: Json) -> dict[str, int]:
    return {name: quantity(str(n)) for name, n in resources.items() if name.startswith("nvidia.com/")}


@dataclass(frozen=True)
class Pod:
    """A pod.

    controller  (kind, name) of the owner that would make a new one; ("", "") for none; `controller_uid` its uid
    resources   names of extended resources that any container, init container included, requests or is limited to
    claims      names of the ResourceClaims in its namespace
    running     some container runs, or may: False once all have ended, whatever finalizers keep the object
    env         literal values of the environment of its containers, in their order, by name
    node_selector, tolerations  as in its spec
    message     what its containers said as they ended or what they wait for, else what kubelet says of the pod
    """

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    controller: tuple[str, str] = ("", "")
    controller_uid: str = ""
    phase: str = ""
    ready: bool = False
    running: bool = True
    terminating: bool = False
    finalizers: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()
    claims: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    created: float = 0.0
    message: str = ""

    @property
    def full_name(self) -> str:
        """ "NAMESPACE/NAME"."""
        return f"{self.namespace}/{self.name}"


def pod(raw: Json) -> Pod:
    """A Pod object."""
    meta, spec, status = _map(raw, "metadata"), _map(raw, "spec"), _map(raw, "status")
    owner: Json = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), {})
    containers = list(_containers(spec))
    phase = str(status.get("phase", ""))
    terminating = bool(meta.get("deletionTimestamp"))
    return Pod(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        node=str(spec.get("nodeName", "")),
        labels=_strings(_map(meta, "labels")),
        annotations=_strings(_map(meta, "annotations")),
        controller=(str(owner.get("kind", "")), str(owner.get("name", ""))),
        controller_uid=str(owner.get("uid", "")),
        phase=phase,
        ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()),
        running=phase not in ("Succeeded", "Failed") and not (terminating and _all_ended(status)),
        terminating=terminating,
        finalizers=tuple(meta.get("finalizers") or ()),
        resources=frozenset(
            name
            for container in containers
            for side in ("requests", "limits")
            for name, amount in _map(container, "resources", side).items()
            if "/" in name and str(amount) != "0"
        ),
        claims=_claims(spec, status),
        env=tuple(
            (str(e.get("name", "")), str(e["value"])) for c in containers for e in c.get("env") or () if "value" in e
        ),
        node_selector=_strings(_map(spec, "nodeSelector")),
        tolerations=tuple(spec.get("tolerations") or ()),
        created=seconds(str(meta.get("creationTimestamp") or "")),
        message=_message(status),
    )


def _message(status: Json) -> str:
    """What its containers left as they ended, or what they wait for; else what kubelet says of the whole pod."""
    said = []
    for container in status.get("containerStatuses") or ():
        for state in ("terminated", "waiting"):
            found = _map(container, "state", state)
            said += [str(found[key]) for key in ("reason", "message") if found.get(key)]
    return ": ".join(said) or ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


def _containers(spec: Json) -> Iterator[Json]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _all_ended(status: Json) -> bool:
    """All containers are known and none runs or waits to: what is left is an object with finalizers."""
    states = [c.get("state") or {} for k in ("initContainerStatuses", "containerStatuses") for c in status.get(k) or ()]
    return bool(status.get("containerStatuses")) and all("terminated" in state for state in states)


def _claims(spec: Json, status: Json) -> tuple[str, ...]:
    made = {s.get("name"): s.get("resourceClaimName") for s in status.get("resourceClaimStatuses") or ()}
    named = (c.get("resourceClaimName") or made.get(c.get("name")) for c in spec.get("resourceClaims") or ())
    return tuple(str(name) for name in named if name)


@dataclass(frozen=True)
class Budget:
    """A PodDisruptionBudget: `allowed` disruptions now; the selector as in the API, None selects nothing."""

    namespace: str
    name: str
    allowed: int = 0
    selector: Json | None = None
    max_unavailable: str = ""
    min_available: str = ""

    @property
    def full_name(self) -> str:
        """ "NAMESPACE/NAME"."""
        return f"{self.namespace}/{self.name}"


def budget(raw: Json) -> Budget:
    """A PodDisruptionBudget object."""
    meta, spec = _map(raw, "metadata"), _map(raw, "spec")
    return Budget(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        allowed=int(_map(raw, "status").get("disruptionsAllowed") or 0),
        selector=spec.get("selector"),
        max_unavailable=str(spec.get("maxUnavailable", "")),
        min_available=str(spec.get("minAvailable", "")),
    )


@dataclass(frozen=True)
class Daemon:
    """A DaemonSet and its pod template's selector of nodes."""

    namespace: str
    name: str
    uid: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()


def daemon(raw: Json) -> Daemon:
    """A DaemonSet object."""
    meta, template = _map(raw, "metadata"), _map(raw, "spec", "template", "spec")
    return Daemon(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        node_selector=_strings(_map(template, "nodeSelector")),
        tolerations=tuple(template.get("tolerations") or ()),
    )


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim: the drivers that its requests were allocated by (gpu.nvidia.com, …)."""

    namespace: str
    name: str
    drivers: frozenset[str] = frozenset()


def claim(raw: Json) -> Claim:
    """A ResourceClaim object, of any version of resource.k8s.io."""
    meta = _map(raw, "metadata")
    results: Sequence[Json] = _map(raw, "status", "allocation", "devices").get("results") or ()
    return Claim(
        str(meta.get("namespace", "")),
        str(meta.get("name", "")),
        frozenset(str(result.get("driver", "")) for result in results),
    )


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector (matchLabels, matchExpressions) matches; an empty one matches all, None nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in _map(selector, "matchLabels").items()):
        return False
    for rule in selector.get("matchExpressions") or ():
        key, values = rule.get("key", ""), rule.get("values") or ()
        fits = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not fits.get(rule.get("operator", ""), False):
            return False
    return True


def tolerates(tolerations: Sequence[Json], key: str, effect: str) -> bool:
    """Whether tolerations let a pod onto a node with the taint `key`:`effect` (its value left out of account)."""
    return any(
        t.get("effect", "") in ("", effect)
        and (t.get("key") == key or (not t.get("key") and t.get("operator") == "Exists"))
        for t in tolerations
    )
