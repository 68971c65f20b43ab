"""Who may do what: RBAC from its objects, and the Node authorizer for kubelet's credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.cluster.apiserver.kinds import BY_KIND, Kind, Object
from tests.cluster.apiserver.store import Store

_RBAC = "rbac.authorization.k8s.io"
ADMINS = "system:masters"
NODES = "system:nodes"


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """Name of the node whose kubelet this is; empty for anybody else."""
        return self.name.removeprefix("system:node:") if NODES in self.groups else ""


@dataclass(frozen=True)
class Attempt:
    """What somebody wants to do, in the authorizer's terms. ``resource`` holds the subresource: pods/eviction."""

    user: User
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    selected: str = ""

    def refused(self, why: str) -> str:
        """The real text of the refusal, without the object's name in front."""
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        text = (
            f'User "{self.user.name}" cannot {self.verb} resource "{self.resource}" in API group "{self.group}" {scope}'
        )
        return f"{text}: {why}" if why else text


def allowed(store: Store, attempt: Attempt) -> tuple[bool, str]:
    """Whether it is allowed, and why not where an authorizer says."""
    user = attempt.user
    if ADMINS in user.groups:
        return True, ""
    if any(_rule_allows(rule, attempt) for rule in _rules(store, attempt)):
        return True, ""
    return _node_authorizer(store, attempt) if user.node else (False, "")


def _rules(store: Store, attempt: Attempt) -> Iterator[Object]:
    bindings = list(store.items(_kind("ClusterRoleBinding")))
    if attempt.namespace:
        bindings += store.items(_kind("RoleBinding"), attempt.namespace)
    for binding in bindings:
        if not any(_is_subject(each, attempt.user) for each in binding.get("subjects") or []):
            continue
        role = binding["roleRef"]
        namespace = binding["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
        found = store.get(_kind(role["kind"]), namespace, role["name"])
        if found:
            yield from found.item.get("rules") or []


def _kind(name: str) -> Kind:
    return BY_KIND[_RBAC, name]


def _is_subject(subject: Object, user: User) -> bool:
    match subject["kind"]:
        case "User":
            return bool(subject["name"] == user.name)
        case "Group":
            return subject["name"] in (*user.groups, "system:authenticated")
    return bool(user.name == f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}")


def _rule_allows(rule: Object, attempt: Attempt) -> bool:
    if not {"*", attempt.verb} & set(rule.get("verbs") or []):
        return False
    if not {"*", attempt.group} & set(rule.get("apiGroups") or []):
        return False
    _, _, subresource = attempt.resource.partition("/")
    wanted = {"*", attempt.resource} | ({f"*/{subresource}"} if subresource else set())
    if not wanted & set(rule.get("resources") or []):
        return False
    names = rule.get("resourceNames") or []
    return not names or attempt.name in names


def _node_authorizer(store: Store, attempt: Attempt) -> tuple[bool, str]:
    node, reads = attempt.user.node, attempt.verb in ("get", "list", "watch")
    match attempt.group, attempt.resource:
        case "", "nodes":
            if reads and node not in (attempt.name, attempt.selected):
                return False, f"node '{node}' cannot read '{attempt.name}', only its own Node object"
            return attempt.verb in ("get", "list", "watch", "create", "update", "patch"), ""
        case "", "nodes/status":
            return attempt.verb in ("update", "patch"), ""
        case "", "pods":
            mine = attempt.verb == "get" or attempt.selected == node
            return (attempt.verb in ("create", "delete")) or (reads and mine), ""
        case "", "pods/status":
            return attempt.verb in ("update", "patch"), ""
        case "", "pods/eviction":
            return attempt.verb == "create", ""
        case "", "events":
            return attempt.verb in ("create", "update", "patch"), ""
        case "coordination.k8s.io", "leases":
            if attempt.namespace != "kube-node-lease":
                return False, 'can only access leases in the "kube-node-lease" system namespace'
            return (
                attempt.verb == "create" or attempt.name == node,
                "can only access node lease with the same name as the requesting node",
            )
    return False, ""


def review(store: Store, user: User, body: Object) -> Object:
    """Answers a SelfSubjectAccessReview."""
    asked = (body.get("spec") or {}).get("resourceAttributes")
    if asked is None:
        return body | {"status": {"allowed": ADMINS in user.groups}}
    resource, sub = asked.get("resource", ""), asked.get("subresource", "")
    attempt = Attempt(
        user,
        asked.get("verb", ""),
        asked.get("group", ""),
        f"{resource}/{sub}" if sub else resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
    yes, why = allowed(store, attempt)
    return body | {"status": {"allowed": yes} | ({"reason": why} if why else {})}
