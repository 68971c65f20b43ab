"""Which kinds the API has, and the rules of the real API server that differ from kind to kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """One kind of object and the resource that serves it.

    fields       field selectors that are understood besides metadata.name and metadata.namespace
    subresources name → kind that is sent and answered, as (group, version, kind)
    unconditional whether an update without resourceVersion overwrites
    creates      whether an update of an absent object creates it
    generation   whether metadata.generation counts changes of the spec
    review       not stored: creating one answers a question
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    subresources: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    unconditional: bool = True
    creates: bool = False
    generation: bool = False
    review: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """What messages call it: ``pods``, ``leases.coordination.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("create",) if self.review else VERBS


def _status(group: str, version: str, kind: str) -> dict[str, tuple[str, str, str]]:
    return {"status": (group, version, kind)}


_POD = {
    "status": ("", "v1", "Pod"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "v1", "Binding"),
    "log": ("", "v1", "Pod"),
}
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_RBAC = "rbac.authorization.k8s.io"

KINDS = (
    Kind("", "v1", "Namespace", "namespaces", False, ("ns",), ("status.phase",), _status("", "v1", "Namespace")),
    Kind("", "v1", "Node", "nodes", False, ("no",), ("spec.unschedulable",), _status("", "v1", "Node")),
    Kind("", "v1", "Pod", "pods", True, ("po",), _POD_FIELDS, _POD, generation=True),
    Kind("", "v1", "Event", "events", True, ("ev",), _EVENT_FIELDS, creates=True),
    Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",)),
    Kind("", "v1", "Secret", "secrets", fields=("type",)),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",)),
    Kind(
        "apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), (), _status("apps", "v1", "DaemonSet"), generation=True
    ),
    Kind(
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        True,
        ("rs",),
        (),
        _status("apps", "v1", "ReplicaSet"),
        generation=True,
    ),
    Kind(
        "batch", "v1", "Job", "jobs", True, (), ("status.successful",), _status("batch", "v1", "Job"), generation=True
    ),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        ("pdb",),
        (),
        _status("policy", "v1", "PodDisruptionBudget"),
        unconditional=False,
        generation=True,
    ),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", unconditional=False, creates=True),
    Kind(
        "resource.k8s.io",
        "v1",
        "ResourceClaim",
        "resourceclaims",
        subresources=_status("resource.k8s.io", "v1", "ResourceClaim"),
    ),
    Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, (), ("spec.nodeName", "spec.driver")),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
    Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False),
    Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Kind(_RBAC, "v1", "Role", "roles"),
    Kind(_RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, review=True),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, review=True),
)

BY_RESOURCE = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
BY_KIND = {(kind.group, kind.kind): kind for kind in KINDS}
GROUPS = tuple(dict.fromkeys((kind.group, kind.version) for kind in KINDS if kind.group))

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "resourceClaims": "name",
}
"""Lists of maps that are merged by a key, by the name of their field. All other lists of maps are replaced whole."""

SETS = ("finalizers", "podCIDRs")
"""Lists of plain values that are merged as sets."""
