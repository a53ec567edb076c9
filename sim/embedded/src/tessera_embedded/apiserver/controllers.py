"""What a controller manager would do, as far as Tessera leans on it, done right after each write.

A CustomResourceDefinition is accepted and served, and its objects go with it; the content of a
namespace goes with the namespace; a node that reports Ready loses its not-ready taint; events go
after an hour. Not done: garbage collection by owner, workloads, status of disruption budgets and
quotas, eviction by taint.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tessera_embedded.apiserver.admission.requests import NAMESPACES, WriteRequest
from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.http_types import ADMIN, RequestTarget
from tessera_embedded.apiserver.kinds.admission import served
from tessera_embedded.apiserver.objects.object_store import StoredChange, StoredObject
from tessera_embedded.apiserver.objects.resources import EXTENSIONS, KindCatalogue, Shelf
from tessera_embedded.apiserver.verbs.delete import delete_now
from tessera_embedded.apiserver.verbs.write import Writer

DEFINITIONS: Final = (EXTENSIONS, "customresourcedefinitions")
NODES: Final = ("", "nodes")
EVENTS: Final = ("", "events")
EVENT_LIFE_S: Final = 3600
MOST_EVENTS: Final = 5_000
"""Beyond it the oldest go before their time: this server lives in memory."""
_NOT_READY: Final = "node.kubernetes.io/not-ready"


class Chores:
    """Follows a few kinds and does what their changes ask for."""

    def __init__(self, writer: Writer, catalogue: KindCatalogue) -> None:
        self._writer, self._objects, self._catalogue = writer, writer.objects, catalogue
        self._events: deque[tuple[float, str]] = deque()
        self._seen: dict[Shelf, int] = {}
        self._terminating: set[str] = set()

    def resume(self) -> None:
        """Take up what was left when objects were read back from a journal."""
        for record in self._objects.records(DEFINITIONS):
            self._serve(record.obj())
        for record in self._objects.records(NAMESPACES):
            self._namespace(StoredChange(record.version, record))
        for record in self._objects.records(EVENTS):
            self._events.append((self._writer.world.now(), record.key))
        for shelf in (DEFINITIONS, NODES, NAMESPACES, EVENTS):
            self._seen[shelf] = self._objects.version

    def run(self) -> None:
        """Do what the changes since the last run ask for, until nothing more follows."""
        while self._round():
            pass

    def _round(self) -> bool:
        before = self._objects.version
        for change in self._changes_of(DEFINITIONS):
            self._definition(change)
        for change in self._changes_of(NODES):
            self._node(change)
        for change in self._changes_of(NAMESPACES):
            self._namespace(change)
        for change in self._changes_of(EVENTS):
            self._event(change)
        for name in tuple(self._terminating):
            self._empty(name)
        return self._objects.version != before

    def _changes_of(self, shelf: Shelf) -> list[StoredChange]:
        kept, since = self._objects.kind_store(shelf), self._seen.get(shelf, 0)
        self._seen[shelf] = self._objects.version
        if not kept.log or kept.log[-1].version <= since:
            return []
        return kept.log[kept.position(since) - kept.dropped :]

    def _definition(self, change: StoredChange) -> None:
        definition = change.record.obj()
        if change.gone:
            spec = definition["spec"]
            shelf = (spec["group"], spec["names"]["plural"])
            for record in self._objects.records(shelf):
                self._objects.remove(shelf, record)
            self._catalogue.drop(*shelf)
            return
        self._serve(definition)
        status = definition.setdefault("status", {})
        if status.get("acceptedNames") == definition["spec"]["names"]:
            return
        status["acceptedNames"] = definition["spec"]["names"]
        at = self._writer.stamp()
        status["conditions"] = [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": at,
             "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": at,
             "reason": "InitialNamesAccepted",
             "message": "the initial names have been accepted"},
        ]  # fmt: skip
        self._objects.put(DEFINITIONS, definition)

    def _serve(self, definition: JsonObject) -> None:
        self._catalogue.drop(definition["spec"]["group"], definition["spec"]["names"]["plural"])
        for resource in served(definition):
            self._catalogue.put(resource)

    def _node(self, change: StoredChange) -> None:
        if change.gone:
            return
        node = self._objects.find(NODES, "", change.record.name)
        obj = node.obj() if node is not None else {}
        taints = obj.get("spec", {}).get("taints", [])
        if _is_ready(obj) and any(t["key"] == _NOT_READY for t in taints):
            obj["spec"]["taints"] = [t for t in taints if t["key"] != _NOT_READY]
            if not obj["spec"]["taints"]:
                del obj["spec"]["taints"]
            self._objects.put(NODES, obj)

    def _namespace(self, change: StoredChange) -> None:
        phase = change.record.fields["status.phase"]
        if not change.gone and phase == "Terminating":
            self._terminating.add(change.record.name)

    def _empty(self, namespace: str) -> None:
        """Delete what is in a namespace; with the last of it, the namespace."""
        left = False
        for resource in self._catalogue:
            if resource.namespaced and resource.stored_as is None:
                for record in self._inside(resource.shelf, namespace):
                    left = True
                    if '"deletionTimestamp"' not in record.body.decode(errors="replace"):
                        target = RequestTarget(resource, record.namespace, record.name)
                        delete_now(self._writer, WriteRequest(target, ADMIN), record)
        found = self._objects.find(NAMESPACES, "", namespace)
        if not left and found is not None and not found.obj()["metadata"].get("finalizers"):
            self._objects.remove(NAMESPACES, found)
            self._terminating.discard(namespace)

    def _inside(self, shelf: Shelf, namespace: str) -> list[StoredObject]:
        kept = self._objects.kind_store(shelf)
        return [kept.records[k] for k in tuple(kept.between(f"{namespace}/", f"{namespace}0"))]

    def _event(self, change: StoredChange) -> None:
        now = self._writer.world.now()
        if not change.gone and change.previous is None:
            self._events.append((now, change.record.key))
        while self._events and (
            len(self._events) > MOST_EVENTS or self._events[0][0] < now - EVENT_LIFE_S
        ):
            _, key = self._events.popleft()
            record = self._objects.kind_store(EVENTS).records.get(key)
            if record is not None:
                self._objects.remove(EVENTS, record)


def _is_ready(node: JsonObject) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
