"""Objects with resource versions, and the history that watches read."""

from __future__ import annotations

import copy
import itertools
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tests.cluster.apiserver.fields import Ownership
from tests.cluster.apiserver.kinds import Kind, Object
from tests.cluster.apiserver.problem import Problem

Key = tuple[str, str, str, str]
"""Group, plural, namespace, name."""

HISTORY = 5000


def timestamp(seconds: float | None = None) -> str:
    """RFC 3339 with seconds, as metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@dataclass
class Record:
    """An object as stored, and who owns its fields."""

    item: Object
    ownership: Ownership


@dataclass(frozen=True)
class Change:
    """One event of a watch. ``before`` is the object as it was, for selectors that it left."""

    version: int
    event: str
    resource: tuple[str, str]
    item: Object
    before: Object | None


class Store:
    """All objects. Hold ``lock`` around a read and the write that depends on it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._records: dict[Key, Record] = {}
        self._versions = itertools.count(1)
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self.version = 0
        self.closed = False

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        with self.lock:
            return self._records.get((kind.group, kind.plural, namespace, name))

    def items(self, kind: Kind, namespace: str = "") -> list[Object]:
        """All objects of a kind, of one namespace or of all, sorted as etcd does."""
        with self.lock:
            found = [
                (key[2:], record.item)
                for key, record in self._records.items()
                if key[:2] == (kind.group, kind.plural) and namespace in ("", key[2])
            ]
        return [item for _, item in sorted(found, key=lambda each: each[0])]

    def write(self, kind: Kind, record: Record) -> Object:
        """Stores an object as a new version and tells the watches."""
        with self.lock:
            item, meta = record.item, record.item["metadata"]
            key = (kind.group, kind.plural, meta.get("namespace", ""), meta["name"])
            before = self._records.get(key)
            meta.setdefault("uid", str(uuid.uuid4()))
            self._stamp(item)
            meta["managedFields"] = record.ownership.rendered(kind.api_version)
            self._records[key] = Record(copy.deepcopy(item), record.ownership)
            self._tell("MODIFIED" if before else "ADDED", kind, item, before.item if before else None)
            return item

    def remove(self, kind: Kind, item: Object) -> Object:
        with self.lock:
            meta = item["metadata"]
            before = self._records.pop((kind.group, kind.plural, meta.get("namespace", ""), meta["name"]))
            gone = copy.deepcopy(before.item)
            self._stamp(gone)
            self._tell("DELETED", kind, gone, before.item)
            return gone

    def _stamp(self, item: Object) -> None:
        self.version = next(self._versions)
        item["metadata"]["resourceVersion"] = str(self.version)

    def _tell(self, event: str, kind: Kind, item: Object, before: Object | None) -> None:
        self._history.append(Change(self.version, event, (kind.group, kind.plural), copy.deepcopy(item), before))
        self._changed.notify_all()

    def changes(self, kind: Kind, since: int, deadline: float) -> Iterator[Change | None]:
        """Changes of a kind after a version until the deadline (monotonic); None about once a second in between.
        Raises Problem 410 when the history does not reach back that far."""
        last = since
        while time.monotonic() < deadline and not self.closed:
            with self.lock:
                if self._history and self._history[0].version > last + 1 and len(self._history) == HISTORY:
                    raise Problem(410, f"too old resource version: {last} ({self._history[0].version})")
                fresh = [change for change in self._history if change.version > last]
                if not fresh:
                    self._changed.wait(min(1.0, max(0.0, deadline - time.monotonic())))
                last = max(last, fresh[-1].version if fresh else 0)
            wanted = [change for change in fresh if change.resource == (kind.group, kind.plural)]
            yield from wanted
            if not fresh:
                yield None

    def close(self) -> None:
        """Ends all watches."""
        with self.lock:
            self.closed = True
            self._changed.notify_all()
