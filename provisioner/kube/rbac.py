"""The verbs that a roll needs, and whether we have them: asked before the first node is touched.

The list and templates/rbac/provision-upgrade.yaml say the same; a test compares them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from provisioner.errors import Forbidden
from provisioner.kube.api import Api
from provisioner.kube.failures import REMEDY_RBAC

NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class Need:
    """A verb on a resource, "GROUP/RESOURCE/SUBRESOURCE" taken apart; `namespace` "" is the whole cluster, `name`
    one object only. `why` says what for. An optional one only narrows what a roll can see or tell."""

    verb: str
    resource: str
    why: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    optional: bool = False

    @property
    def text(self) -> str:
        """ "create pods/eviction" or "update leases.coordination.k8s.io in kube-system"."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{'/' + self.subresource if self.subresource else ''}{where}"


_LEASES = "coordination.k8s.io"
NEEDED: tuple[Need, ...] = (
    Need("get", "nodes", "find the node of a host"),
    Need("list", "nodes", "find the node of a host"),
    Need("patch", "nodes", "cordon, and record where the roll is"),
    Need("get", "pods", "wait until an evicted pod is gone"),
    Need("list", "pods", "find the pods that use a card"),
    Need("create", "pods", "evict pods", subresource="eviction"),
    Need("list", "poddisruptionbudgets", "name the budget that blocks an eviction", group="policy"),
    Need("list", "daemonsets", "keep pods that serve the cards away while the driver changes", group="apps"),
    Need("list", "resourceclaims", "find pods that claim a card", group="resource.k8s.io", optional=True),
    Need("create", "leases", "let one roll at a time work", group=_LEASES, namespace=NAMESPACE),
    Need("get", "leases", "let one roll at a time work", group=_LEASES, namespace=NAMESPACE, name="provision-upgrade"),
    Need(
        "update", "leases", "let one roll at a time work", group=_LEASES, namespace=NAMESPACE, name="provision-upgrade"
    ),
    Need("create", "pods", "compute on a card before a node is uncordoned", namespace=NAMESPACE),
    Need("delete", "pods", "take that pod away again", namespace=NAMESPACE),
    Need("get", "pods", "say why that pod failed", subresource="log", namespace=NAMESPACE, optional=True),
    Need("create", "events", "tell `kubectl describe node`", namespace="default", optional=True),
)


def missing(api: Api) -> list[Need]:
    """What we may not do. Raises KubeError where the API can't be asked."""

    def may(need: Need) -> bool:
        return api.allowed(
            need.verb,
            need.resource,
            group=need.group,
            namespace=need.namespace,
            subresource=need.subresource,
            name=need.name,
        )

    with ThreadPoolExecutor(4, thread_name_prefix="rbac") as pool:
        return [need for need, allowed in zip(NEEDED, pool.map(may, NEEDED), strict=True) if not allowed]


def require(api: Api) -> list[Need]:
    """Raises Forbidden that names every missing verb without which a roll can't work; the optional ones that miss."""
    lacking = missing(api)
    fatal = [need for need in lacking if not need.optional]
    if fatal:
        raise Forbidden(
            "this user lacks what a roll needs in the cluster",
            why="; ".join(f"{need.text} (to {need.why})" for need in fatal),
            remedy=REMEDY_RBAC,
            verb=fatal[0].verb,
            resource=fatal[0].resource,
        )
    return [need for need in lacking if need.optional]
