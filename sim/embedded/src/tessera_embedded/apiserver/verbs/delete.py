"""delete and deletecollection: at once, gracefully (pods), or held up by finalizers.

Not served: dependents. Owner references are kept and nobody collects garbage by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tessera_embedded.apiserver.admission.requests import NAMESPACES, Steps, WriteRequest, review
from tessera_embedded.apiserver.errors import BadRequest, Conflict, JsonObject, conflict, forbidden
from tessera_embedded.apiserver.http_types import RequestTarget, Response, success
from tessera_embedded.apiserver.kinds.fields import settle
from tessera_embedded.apiserver.kinds.rules import KindRules
from tessera_embedded.apiserver.objects import metadata as meta
from tessera_embedded.apiserver.objects.object_store import StoredObject
from tessera_embedded.apiserver.verbs.read import filter_of
from tessera_embedded.apiserver.verbs.write import Writer

_TRIES: Final = 10
IMMORTAL: Final = ("default", "kube-system", "kube-public")
PODS: Final = ("", "pods")


def options_of(body: bytes, query: Mapping[str, str]) -> JsonObject:
    """The DeleteOptions of a request, from its body and its query. Raises BadRequest."""
    options: JsonObject = meta.without_nulls(meta.json_object(body)) if body.strip() else {}
    settle(options, "DeleteOptions", "v1")
    grace = query.get("gracePeriodSeconds", "")
    if grace:
        if not grace.removeprefix("-").isdigit():
            raise BadRequest(f"gracePeriodSeconds: Invalid value: {grace!r}: it is no whole number")
        options.setdefault("gracePeriodSeconds", int(grace))
    return options


def delete(writer: Writer, ask: WriteRequest) -> Steps:
    """Delete one object, or begin to; 200 with the object or a Status."""
    target = ask.target
    for _ in range(_TRIES):
        old = writer.find(target)
        _check_preconditions(target, ask.options, old)
        if target.resource.shelf == NAMESPACES and target.name in IMMORTAL:
            raise forbidden("namespaces", "", target.name, "this namespace may not be deleted")
        asked = review(ask, "DELETE", None, old.obj(), KindRules())
        yield asked
        asked.stage = "validate"
        yield asked
        if writer.objects.find(target.resource.shelf, target.namespace, target.name) is old:
            return delete_now(writer, ask, old)
    raise conflict(
        target.resource.plural, target.resource.group, target.name, "the object keeps changing"
    )


def delete_now(writer: Writer, ask: WriteRequest, old: StoredObject) -> Response:
    """What becomes of an object that is to be deleted, admission asked."""
    shelf, obj = ask.target.resource.shelf, old.obj()
    finalizers = obj["metadata"].get("finalizers") or shelf == NAMESPACES
    if shelf == PODS:
        if _mark_pod(obj, ask.options, writer.world.now()) and not ask.dry_run:
            old = writer.put(ask, obj)
        if obj["metadata"].get("deletionGracePeriodSeconds"):
            return _still_there(ask, obj, old)
    if finalizers:
        if _mark(obj, writer.world.now(), shelf) and not ask.dry_run:
            old = writer.put(ask, obj)
        return _still_there(ask, obj, old)
    if not ask.dry_run:
        old = writer.objects.remove(shelf, old)
    return _gone(ask.target, old)


def _check_preconditions(target: RequestTarget, options: JsonObject, old: StoredObject) -> None:
    conditions = options.get("preconditions") or {}
    have = {"uid": ("UID", old.uid), "resourceVersion": ("ResourceVersion", str(old.version))}
    for field, (word, value) in have.items():
        wanted = conditions.get(field)
        if wanted is not None and wanted != value:
            raise _mismatch(target, word, wanted, value)


def _mismatch(target: RequestTarget, word: str, wanted: str, have: str) -> Conflict:
    what = "deleted and then recreated" if word == "UID" else "modified"
    return conflict(
        target.resource.kind, target.resource.group, target.name,
        f"the {word} in the precondition ({wanted}) does not match the {word} in record ({have}). "
        f"The object might have been {what}",
    )  # fmt: skip


def _mark_pod(pod: JsonObject, options: JsonObject, now: float) -> bool:
    """Begin, shorten or end a pod's graceful deletion; False where nothing changes."""
    metadata, asked = pod["metadata"], options.get("gracePeriodSeconds")
    if asked is not None and asked < 0:
        asked = 1
    if "deletionTimestamp" not in metadata:
        period = _first_grace(pod, asked)
        metadata["deletionTimestamp"] = meta.stamp(now + period)
        metadata["generation"] = metadata.get("generation", 0) + 1
    else:
        had = metadata.get("deletionGracePeriodSeconds", 0)
        if asked is None or asked >= had:
            return False
        ends = max(now, meta.seconds(metadata["deletionTimestamp"]) - had + asked)
        period = asked if ends > now or asked == 0 else 1
        metadata["deletionTimestamp"] = meta.stamp(ends)
    metadata["deletionGracePeriodSeconds"] = period
    return True


def _first_grace(pod: JsonObject, asked: int | None) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    period: int = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return period if period >= 0 else 1


def _mark(obj: JsonObject, now: float, shelf: tuple[str, str]) -> bool:
    """Mark an object that finalizers hold up; False where it is marked already."""
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return False
    metadata["deletionTimestamp"] = meta.stamp(now)
    if shelf == NAMESPACES:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    else:
        metadata["deletionGracePeriodSeconds"] = 0
    if "generation" in metadata:
        metadata["generation"] += 1
    return True


def _still_there(ask: WriteRequest, obj: JsonObject, record: StoredObject) -> Response:
    resource = ask.target.resource
    if ask.dry_run:
        return Response(200, resource.prefix + msgspec.json.encode(obj)[1:])
    return Response(200, record.encoded(resource))


def _gone(target: RequestTarget, record: StoredObject) -> Response:
    resource = target.resource
    if resource.returns_deleted:
        return Response(200, record.encoded(resource))
    details = {"name": record.name, "group": resource.group, "kind": resource.plural,
               "uid": record.uid}  # fmt: skip
    return success(200, {name: value for name, value in details.items() if value})


def delete_collection(writer: Writer, ask: WriteRequest) -> Steps:
    """Delete what a selector chooses; 200 with the list of what was there."""
    target = ask.target
    wanted = filter_of(target, ask.query)
    chosen = [r for r in writer.objects.records(target.resource.shelf) if wanted.takes(r)]
    items = [record.obj() for record in chosen]
    for record in chosen:
        one = msgspec.structs.replace(target, namespace=record.namespace, name=record.name)
        yield from delete(writer, msgspec.structs.replace(ask, target=one))
    metadata = {"resourceVersion": str(writer.objects.version)}
    body = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version,
            "metadata": metadata, "items": items}  # fmt: skip
    return Response(200, msgspec.json.encode(body))
