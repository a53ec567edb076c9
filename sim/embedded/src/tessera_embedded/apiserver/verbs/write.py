"""create, update, patch and delete, with every precondition, as steps that stop for admission.

A verb is a generator: it yields a `AdmissionQuery` wherever admission is to be asked, is sent the
object that admission leaves, and returns the answer. So the same verbs run at once where there is
no admission, and wait for webhooks where there is; what was read before a wait is read again after
it, and the verb starts again where it has changed. Refusals are raised as `ApiError`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Final

import msgspec

from tessera_embedded.apiserver.admission.requests import (
    NAMESPACES,
    AdmissionQuery,
    ApiServerEnvironment,
    Steps,
    WriteRequest,
    precondition_failed,
    review,
    unpatchable,
)
from tessera_embedded.apiserver.errors import (
    BadRequest,
    Cause,
    JsonObject,
    Unworded,
    already_exists,
    conflict,
    forbidden,
    invalid,
    not_found,
    wrong,
)
from tessera_embedded.apiserver.http_types import RequestTarget, Response
from tessera_embedded.apiserver.kinds.registry import rules_of
from tessera_embedded.apiserver.kinds.rules import KindRules
from tessera_embedded.apiserver.objects import metadata as meta
from tessera_embedded.apiserver.objects.object_store import ObjectStore, StoredObject, record_of

_TRIES: Final = 10
_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Writer:
    """The verbs that write."""

    def __init__(self, objects: ObjectStore, world: ApiServerEnvironment) -> None:
        self.objects, self.world = objects, world

    def stamp(self) -> str:
        """Now, as metadata has it."""
        return meta.stamp(self.world.now())

    def create(self, ask: WriteRequest, obj: JsonObject) -> Steps:
        """Write a new object; 201 and the object."""
        target, rules = ask.target, rules_of(ask.target.resource)
        _placed(obj, target)
        if "resourceVersion" in obj["metadata"]:
            raise Unworded("resourceVersion should not be set on objects to be created")
        self.check_namespace(target)
        _fill(ask, rules, obj)
        rules.admit(obj)
        named = msgspec.structs.replace(target, name=obj["metadata"].get("name", ""))
        ask = msgspec.structs.replace(ask, target=named)
        obj = yield from _mutated(review(ask, "CREATE", obj, None, rules))
        _placed(obj, target)
        self._prepare_new(obj, ask, rules)
        yield from _validated(review(ask, "CREATE", obj, None, rules))
        resource, name = target.resource, obj["metadata"]["name"]
        if self.objects.find(resource.shelf, target.namespace, name) is not None:
            raise already_exists(resource.plural, resource.group, name)
        return Response(201, self.put(ask, obj).encoded(resource))

    def _prepare_new(self, obj: JsonObject, ask: WriteRequest, rules: KindRules) -> None:
        metadata, resource = obj["metadata"], ask.target.resource
        meta.forget_servers_own(obj)
        if base := metadata.get("generateName"):
            metadata.setdefault("name", self._free_name(base, ask.target))
        metadata["uid"] = self.world.uid()
        metadata["creationTimestamp"] = self.stamp()
        if resource.generation:
            metadata["generation"] = 1
        rules.create(obj)
        _refuse(ask.target, obj, [*meta.check(obj, resource), *rules.check(obj)])

    def _free_name(self, base: str, target: RequestTarget) -> str:
        shelf = target.resource.shelf
        for _ in range(_TRIES):
            name = base[:58] + self.world.suffix()
            if self.objects.find(shelf, target.namespace, name) is None:
                return name
        raise already_exists(target.resource.plural, target.resource.group, base)

    def check_namespace(self, target: RequestTarget) -> None:
        """Raises NotFound or Forbidden where nothing can be created in the namespace."""
        if not target.resource.namespaced:
            return
        found = self.objects.find(NAMESPACES, "", target.namespace)
        if found is None:
            raise not_found("namespaces", "", target.namespace)
        if found.fields["status.phase"] == "Terminating":
            why = (
                f"unable to create new content in namespace {target.namespace} because it is "
                "being terminated"
            )
            raise forbidden(target.resource.plural, target.resource.group, target.name, why)

    def update(self, ask: WriteRequest, change: Callable[[JsonObject], JsonObject]) -> Steps:
        """Write what `change` makes of the object; 200 and the object."""
        target = ask.target
        for _ in range(_TRIES):
            old = self.find(target)
            before = meta.without_nulls(old.obj())
            new = change(old.obj())
            if not ask.replaces:
                _check_patched(ask, new)
            yield from self._prepare_change(ask, new, before, old)
            if self.objects.find(target.resource.shelf, target.namespace, target.name) is old:
                return self._replace(ask, old, before, new)
        raise conflict(target.resource.plural, target.resource.group, target.name, _MODIFIED)

    def _prepare_change(
        self, ask: WriteRequest, new: JsonObject, before: JsonObject, old: StoredObject
    ) -> Generator[AdmissionQuery, JsonObject | None, None]:
        target, resource = ask.target, ask.target.resource
        rules = rules_of(resource)
        _placed(new, target)
        uid = new["metadata"].get("uid", old.uid)
        if uid != old.uid and ask.replaces:
            raise precondition_failed(target, "UID", uid, old.uid)
        _check_version(target, new, old)
        _fill(ask, rules, new)
        rules.readmit(new)
        mutated = yield from _mutated(review(ask, "UPDATE", new, before, rules))
        if mutated is not new:
            new.clear()
            new.update(mutated)
            _placed(new, target)
        causes = [] if uid == old.uid else [wrong("metadata.uid", uid, "field is immutable")]
        meta.keep_servers_own(new, before)
        new["metadata"]["resourceVersion"] = str(old.version)
        (rules.status if target.subresource == "status" else rules.update)(new, before)
        if resource.generation and _substance(new) != _substance(before):
            new["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        causes += [*meta.check(new, resource), *meta.check_update(new, before), *rules.check(new)]
        _refuse(target, new, [*causes, *rules.check_update(new, before)])
        yield from _validated(review(ask, "UPDATE", new, before, rules))

    def _replace(
        self, ask: WriteRequest, old: StoredObject, before: JsonObject, new: JsonObject
    ) -> Response:
        resource = ask.target.resource
        if new == before:
            return Response(200, old.encoded(resource))
        if _is_over(new) and resource.shelf != NAMESPACES:
            if not ask.dry_run:
                self.objects.remove(resource.shelf, old)
            return Response(200, record_of(resource.shelf, new, old.version).encoded(resource))
        return Response(200, self.put(ask, new).encoded(resource))

    def put(self, ask: WriteRequest, obj: JsonObject) -> StoredObject:
        """Write the object, unless this is a dry run."""
        if ask.dry_run:
            return record_of(ask.target.resource.shelf, obj, 0)
        return self.objects.put(ask.target.resource.shelf, obj)

    def find(self, target: RequestTarget) -> StoredObject:
        """The object, or NotFound."""
        found = self.objects.find(target.resource.shelf, target.namespace, target.name)
        if found is None:
            raise not_found(target.resource.plural, target.resource.group, target.name)
        return found


def _fill(ask: WriteRequest, rules: KindRules, obj: JsonObject) -> None:
    """Settle an object's fields; unknown ones are refused or reported, as the caller wishes."""
    wish = ask.query.get("fieldValidation", "Warn")
    if wish not in ("Ignore", "Warn", "Strict"):
        raise BadRequest(f"fieldValidation: {wish!r} is none of Ignore, Warn and Strict")
    messages = [f'unknown field "{path}"' for path in rules.fill(obj)]
    if messages and wish == "Strict":
        raise BadRequest(f"strict decoding error: {', '.join(messages)}")
    if wish == "Warn":
        ask.warnings.extend(text for text in messages if text not in ask.warnings)


def _check_patched(ask: WriteRequest, new: JsonObject) -> None:
    """A patch that leaves a field of the wrong type is invalid, where a body is a bad request."""
    try:
        _fill(ask, rules_of(ask.target.resource), new)
    except BadRequest as e:
        raise unpatchable(e) from e


def _mutated(asked: AdmissionQuery) -> Generator[AdmissionQuery, JsonObject | None, JsonObject]:
    obj = yield asked
    if obj is None:
        raise AssertionError("admission left no object")
    return obj


def _validated(asked: AdmissionQuery) -> Generator[AdmissionQuery, JsonObject | None, None]:
    asked.stage = "validate"
    yield asked


def _placed(obj: JsonObject, target: RequestTarget) -> None:
    """Give the object the namespace and name of its path, or BadRequest where they differ."""
    metadata = obj["metadata"]
    if target.resource.namespaced:
        if metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
    else:
        metadata.pop("namespace", None)
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({target.name})"
        )


def _check_version(target: RequestTarget, new: JsonObject, old: StoredObject) -> None:
    resource = target.resource
    version = new["metadata"].get("resourceVersion", "")
    if not version and not resource.unconditional:
        cause = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.plural, resource.group, target.name, [cause])
    if version and not version.isdigit():
        raise Unworded(f'resourceVersion: parsing "{version}": invalid syntax')
    if version and version != str(old.version):
        raise conflict(resource.plural, resource.group, target.name, _MODIFIED)


def _substance(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _is_over(obj: JsonObject) -> bool:
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def _refuse(target: RequestTarget, obj: JsonObject, causes: Iterable[Cause]) -> None:
    found = list(causes)
    if found:
        name = obj["metadata"].get("name", "")
        raise invalid(target.resource.kind, target.resource.group, name, found)
