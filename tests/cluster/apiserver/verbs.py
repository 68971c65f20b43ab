"""The verbs: create, update, patch and delete, with conflicts, finalizers and dry runs."""

from __future__ import annotations

import copy
import json
import random
import string
import time
from dataclasses import dataclass
from typing import Any

from tests.cluster.apiserver.access import User
from tests.cluster.apiserver.defaults import prepare_new, prepare_update
from tests.cluster.apiserver.fields import Owner, Ownership
from tests.cluster.apiserver.kinds import BY_KIND, KINDS, Kind, Object
from tests.cluster.apiserver.noderestriction import admit
from tests.cluster.apiserver.patches import json_patch, merge_patch, strategic_merge
from tests.cluster.apiserver.problem import Problem, already_exists, conflict, forbidden, invalid, not_found
from tests.cluster.apiserver.store import Record, Store, timestamp
from tests.cluster.apiserver.validation import check, check_fields

APPLY = "application/apply-patch+yaml"
_NAMESPACE = BY_KIND["", "Namespace"]


@dataclass(frozen=True)
class Call:
    """Whose request it is, and its options. ``strict``: fieldValidation=Strict."""

    user: User
    manager: str = "unknown"
    dry_run: bool = False
    strict: bool = False
    force: bool = False


class Verbs:
    """Writes to a store by the API's rules. Each method is one request, atomic."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def create(self, kind: Kind, namespace: str, body: Object, call: Call) -> Object:
        item = self._decoded(kind, namespace, "", body, call)
        meta = item["metadata"]
        with self.store.lock:
            parent = self.store.get(_NAMESPACE, "", namespace) if kind.namespaced else None
            if kind.namespaced and parent is None:
                raise not_found(_NAMESPACE, namespace)
            if not meta.get("name") and meta.get("generateName"):
                meta["name"] = meta["generateName"] + "".join(
                    random.choices(string.ascii_lowercase + string.digits, k=5)
                )
            prepare_new(kind, item)
            admit(kind, call.user, "create", "", None, item)
            check(kind, item, None)
            if self.store.get(kind, namespace, meta["name"]):
                raise already_exists(kind, meta["name"])
            if parent is not None and parent.item["metadata"].get("deletionTimestamp"):
                raise forbidden(kind, meta["name"], f"unable to create new content in namespace {namespace}")
            ownership = Ownership().updated(Owner(call.manager, "Update"), {}, item, timestamp())
            return self._store(kind, Record(item, ownership), call)

    def update(
        self, kind: Kind, namespace: str, name: str, subresource: str, body: Object, call: Call
    ) -> tuple[Object, bool]:
        """The object as stored, and whether it was created by this."""
        item = self._decoded(kind, namespace, name, body, call)
        with self.store.lock:
            old = self.store.get(kind, namespace, name)
            if old is None:
                if kind.creates and not subresource and not item["metadata"].get("resourceVersion"):
                    return self.create(kind, namespace, item, call), True
                raise not_found(kind, name)
            if not kind.unconditional and not item["metadata"].get("resourceVersion"):
                text = "Invalid value: 0: must be specified for an update"
                raise invalid(kind, name, ("metadata.resourceVersion", "FieldValueInvalid", text))
            return self._changed(kind, subresource, old, item, call), False

    def patch(
        self, kind: Kind, namespace: str, name: str, subresource: str, how: str, patch: Any, call: Call
    ) -> tuple[Object, bool]:
        """Applies a patch of media type ``how``. The object as stored, and whether it was created by this."""
        with self.store.lock:
            old = self.store.get(kind, namespace, name)
            if how == APPLY:
                return self._apply(kind, namespace, name, subresource, patch, call, old)
            if old is None:
                raise not_found(kind, name)
            match how:
                case "application/json-patch+json":
                    item = json_patch(old.item, patch)
                case "application/merge-patch+json":
                    item = merge_patch(old.item, patch)
                case "application/strategic-merge-patch+json":
                    item = strategic_merge(old.item, patch)
                case _:
                    text = "the body of the request was in an unknown format - accepted media types include: "
                    text += "application/json-patch+json, application/merge-patch+json, "
                    raise Problem(415, text + f"application/strategic-merge-patch+json, {APPLY}")
            item = self._decoded(kind, namespace, name, item, call)
            return self._changed(kind, subresource, old, item, call), False

    def _apply(
        self, kind: Kind, namespace: str, name: str, subresource: str, config: Object, call: Call, old: Record | None
    ) -> tuple[Object, bool]:
        owner = Owner(call.manager, "Apply", subresource)
        config = self._decoded(kind, namespace, name, config, call)
        if config["metadata"].get("managedFields"):
            raise Problem(400, "metadata.managedFields must be nil")
        if old is None:
            made = self.create(kind, namespace, config | {"metadata": {**config["metadata"], "name": name}}, call)
            record = self.store.get(kind, namespace, name)
            if record is not None:
                _, record.ownership = Ownership().applied(owner, {}, config, True, timestamp())
                made["metadata"]["managedFields"] = record.ownership.rendered(kind.api_version)
                record.item["metadata"]["managedFields"] = made["metadata"]["managedFields"]
            return made, True
        merged, ownership = old.ownership.applied(owner, old.item, config, call.force, timestamp())
        return self._changed(kind, subresource, old, merged, call, ownership), False

    def delete(self, kind: Kind, namespace: str, name: str, options: Object, call: Call) -> Object:
        """The object while it is still there (grace, finalizers), or as it was last, or a Status."""
        with self.store.lock:
            old = self.store.get(kind, namespace, name)
            if old is None:
                raise not_found(kind, name)
            self._preconditions(kind, old.item, options)
            admit(kind, call.user, "delete", "", old.item, None)
            item = copy.deepcopy(old.item)
            meta = item["metadata"]
            grace = self._grace(kind, item, options)
            dry = call.dry_run or bool(options.get("dryRun"))
            if grace == 0 and not meta.get("finalizers"):
                if not dry:
                    self._remove(kind, old.item)
                return item if kind.kind == "Pod" else _deleted(kind, item)
            if "deletionTimestamp" not in meta or grace < meta.get("deletionGracePeriodSeconds", 0):
                meta["deletionTimestamp"] = timestamp(time.time() + grace)
                meta["deletionGracePeriodSeconds"] = grace
                item = self._store(kind, Record(item, old.ownership), call) if not dry else item
            return item

    def _grace(self, kind: Kind, item: Object, options: Object) -> int:
        if kind.kind != "Pod":
            return 0
        spec, done = item["spec"], item.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if not spec.get("nodeName") or done:
            return 0
        given = options.get("gracePeriodSeconds")
        return int(spec["terminationGracePeriodSeconds"] if given is None else given)

    def _preconditions(self, kind: Kind, item: Object, options: Object) -> None:
        for field, text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted, found = (options.get("preconditions") or {}).get(field), item["metadata"].get(field)
            if wanted is not None and wanted != found:
                why = f"Precondition failed: {text} in precondition: {wanted}, {text} in object meta: {found}"
                raise conflict(
                    kind, item["metadata"]["name"], f"the {text} in the precondition ({wanted}) does not match. {why}"
                )

    def _remove(self, kind: Kind, item: Object) -> None:
        self.store.remove(kind, item)
        if kind.kind == "Namespace":
            for other in KINDS:
                for each in self.store.items(other, item["metadata"]["name"]) if other.namespaced else []:
                    self.store.remove(other, each)

    def _decoded(self, kind: Kind, namespace: str, name: str, body: Object, call: Call) -> Object:
        """A private copy of a body that is of the right kind and place."""
        if not isinstance(body, dict) or not body.get("kind") or not body.get("apiVersion"):
            raise Problem(400, f"Object 'Kind' is missing in '{json.dumps(body)[:100]}'")
        if (body["kind"], body["apiVersion"]) != (kind.kind, kind.api_version):
            raise Problem(
                400,
                f"{body['kind']} in version {body['apiVersion']} cannot be handled as {kind.api_version} {kind.kind}",
            )
        item = copy.deepcopy(body)
        unknown = check_fields(kind, item)
        if unknown and call.strict:
            raise Problem(400, f"strict decoding error: {', '.join(unknown)}")
        meta = item.setdefault("metadata", {})
        if kind.namespaced and meta.setdefault("namespace", namespace) != namespace:
            raise Problem(400, "the namespace of the provided object does not match the namespace sent on the request")
        if name and meta.setdefault("name", name) != name:
            text = f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            raise Problem(400, text)
        return item

    def _changed(
        self, kind: Kind, subresource: str, old: Record, item: Object, call: Call, ownership: Ownership | None = None
    ) -> Object:
        name, meta = old.item["metadata"]["name"], old.item["metadata"]
        given = item["metadata"].get("resourceVersion")
        if given and given != meta["resourceVersion"]:
            raise conflict(kind, name)
        if item["metadata"].get("uid", meta["uid"]) != meta["uid"]:
            why = f"Precondition failed: UID in precondition: {item['metadata']['uid']}, "
            why += f"UID in object meta: {meta['uid']}"
            raise conflict(kind, name, why)
        new = prepare_update(kind, subresource, old.item, item)
        admit(kind, call.user, "update", subresource, old.item, new)
        check(kind, new, old.item)
        if ownership is None:
            owner = Owner(call.manager, "Update", subresource)
            ownership = old.ownership.updated(owner, old.item, new, timestamp())
        gone = meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds")
        if gone and not new["metadata"].get("finalizers") and not call.dry_run:
            self._remove(kind, old.item)
            return new
        if new == old.item and ownership.fields == old.ownership.fields:
            return new
        return self._store(kind, Record(new, ownership), call)

    def _store(self, kind: Kind, record: Record, call: Call) -> Object:
        if call.dry_run:
            record.item["metadata"].setdefault("uid", "00000000-0000-0000-0000-000000000000")
            return record.item
        return self.store.write(kind, record)


def _deleted(kind: Kind, item: Object) -> Object:
    details: Object = {"name": item["metadata"]["name"], "kind": kind.plural, "uid": item["metadata"]["uid"]}
    if kind.group:
        details["group"] = kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
