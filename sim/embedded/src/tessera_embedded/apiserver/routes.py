"""From a method and a path to a verb: what is attempted, and the steps that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tessera_embedded.apiserver.access import Access, Attempt
from tessera_embedded.apiserver.admission.requests import Steps, WriteRequest, unpatchable
from tessera_embedded.apiserver.answers.kubectl_tables import as_table
from tessera_embedded.apiserver.errors import (
    BadRequest,
    JsonObject,
    MethodNotAllowed,
    NotFound,
    UnsupportedMedia,
)
from tessera_embedded.apiserver.http_types import (
    AuthenticatedUser,
    HttpCall,
    RequestTarget,
    Response,
    answer,
    target_of,
)
from tessera_embedded.apiserver.objects.metadata import checked_kind, decode, stamp
from tessera_embedded.apiserver.objects.resources import KindCatalogue, Resource
from tessera_embedded.apiserver.verbs.delete import delete, delete_collection, options_of
from tessera_embedded.apiserver.verbs.patches import apply, merge, operations
from tessera_embedded.apiserver.verbs.pod_subresources import bind, evict
from tessera_embedded.apiserver.verbs.read import get, list_objects
from tessera_embedded.apiserver.verbs.strategic_merge import strategic
from tessera_embedded.apiserver.verbs.write import Writer

_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_VERBS: Final = {
    "POST": ("create", "create"), "PUT": ("update", "update"), "PATCH": ("patch", "patch"),
    "DELETE": ("delete", "deletecollection"), "GET": ("get", "list"),
}  # fmt: skip


def attempt_of(call: HttpCall, catalogue: KindCatalogue) -> Attempt:
    """What a call attempts, in the words of authorisation."""
    single, many = _VERBS.get(call.method, (call.method.lower(),) * 2)
    try:
        target = target_of(call.path, catalogue)
    except NotFound:
        return _attempt_elsewhere(call, single)
    verb = single if target.name else many
    if is_watch(call):
        verb = "watch"
    resource = target.resource
    return Attempt(verb, resource.group, resource.plural, target.subresource, target.namespace,
                   target.name or _selected(call))  # fmt: skip


def _selected(call: HttpCall) -> str:
    """The name of the one object that a list or watch asks for: roles may name it."""
    for term in call.query.get("fieldSelector", "").split(","):
        field, _, name = term.partition("=")
        if field == "metadata.name":
            return name.removeprefix("=")
    return ""


def _attempt_elsewhere(call: HttpCall, verb: str) -> Attempt:
    parts = call.path.strip("/").split("/")
    if len(parts) == 4 and parts[0] == "apis" and call.method == "POST":
        return Attempt("create", parts[1], parts[3])
    return Attempt(verb, path=call.path)


def is_watch(call: HttpCall) -> bool:
    """True for a GET that asks to watch."""
    return call.method == "GET" and call.query.get("watch", "") in ("true", "1")


def steps_of(writer: Writer, access: Access, ask: WriteRequest, call: HttpCall) -> Steps:
    """The steps of one verb. Raises ApiError."""
    target = ask.target
    if target.subresource in _POSTED:
        if call.method != "POST":
            raise _not_allowed()
        return _POSTED[target.subresource](writer, access, ask, call)
    if call.method == "GET":
        return _read(writer, target, call)
    if call.method not in _WRITES:
        raise _not_allowed()
    return _WRITES[call.method](writer, ask, call)


def _not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def _read(writer: Writer, target: RequestTarget, call: HttpCall) -> Steps:
    yield from ()
    if target.name:
        found = Response(200, get(writer.objects, target).encoded(target.resource))
    else:
        found = list_objects(writer.objects, target, call.query)
    return as_table(target, found, writer.world.now()) if call.table else found


def _create(writer: Writer, ask: WriteRequest, call: HttpCall) -> Steps:
    if ask.target.name or ask.target.subresource:
        raise _not_allowed()
    if ask.target.resource.namespaced and not ask.target.namespace:
        raise _not_allowed()
    return writer.create(ask, _decoded(call, ask.target.resource))


def _update(writer: Writer, ask: WriteRequest, call: HttpCall) -> Steps:
    target, resource = ask.target, ask.target.resource
    if not target.name:
        raise _not_allowed()
    missing = writer.objects.find(resource.shelf, target.namespace, target.name) is None
    if missing and resource.create_on_update and not target.subresource:
        obj = _decoded(call, resource)
        obj["metadata"].pop("resourceVersion", None)
        return writer.create(ask, obj)
    ask = msgspec.structs.replace(ask, replaces=True)
    return writer.update(ask, lambda _old: _decoded(call, resource))


def _decoded(call: HttpCall, resource: Resource) -> JsonObject:
    if media(call.content_type) not in (_JSON, ""):
        raise UnsupportedMedia(
            f"the body of the request was in an unknown format - accepted media types include: "
            f"{_JSON}; this one is {call.content_type!r}"
        )
    return stored_names(decode(call.body, resource), resource)


def stored_names(obj: JsonObject, resource: Resource) -> JsonObject:
    """The object under the field names that it is kept by."""
    names = dict(resource.renames)
    return {names.get(name, name): value for name, value in obj.items()} if names else obj


def media(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _patch(writer: Writer, ask: WriteRequest, call: HttpCall) -> Steps:
    if not ask.target.name:
        raise _not_allowed()
    resource, kind = ask.target.resource, media(call.content_type)
    change = _patcher(call, kind, resource)

    def changed(old: JsonObject) -> JsonObject:
        served = {stored: here for here, stored in resource.renames}
        whole = {"kind": resource.kind, "apiVersion": resource.api_version,
                 **{served.get(name, name): value for name, value in old.items()}}  # fmt: skip
        new = change(whole)
        if not isinstance(new, dict):
            raise BadRequest("the patch does not leave an object")
        try:
            return stored_names(checked_kind(new, resource), resource)
        except BadRequest as e:
            raise unpatchable(e) from e

    return writer.update(ask, changed)


def _patcher(call: HttpCall, kind: str, resource: Resource) -> Callable[[JsonObject], Any]:
    if kind == _JSON_PATCH:
        steps = operations(call.body)
        return lambda old: apply(old, steps)
    if kind == _MERGE or (kind == _STRATEGIC and not resource.custom):
        body = _patch_object(call.body)
        how = merge if kind == _MERGE else strategic
        return lambda old: how(old, body)
    raise UnsupportedMedia(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{_JSON_PATCH}, {_MERGE}" + ("" if resource.custom else f", {_STRATEGIC}")
    )


def _patch_object(body: bytes) -> JsonObject:
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BadRequest(f"the patch is not JSON: {e}") from e
    if not isinstance(patch, dict):
        raise BadRequest("the patch is not a JSON object")
    return patch


def _delete(writer: Writer, ask: WriteRequest, call: HttpCall) -> Steps:
    if ask.target.subresource:
        raise _not_allowed()
    options = options_of(call.body, call.query)
    ask = msgspec.structs.replace(ask, options=options)
    return delete(writer, ask) if ask.target.name else delete_collection(writer, ask)


def _bind(writer: Writer, _access: Access, ask: WriteRequest, call: HttpCall) -> Steps:
    return bind(writer, ask, call.body)


def _evict(writer: Writer, _access: Access, ask: WriteRequest, call: HttpCall) -> Steps:
    return evict(writer, ask, call.body)


def _token(writer: Writer, access: Access, ask: WriteRequest, _call: HttpCall) -> Steps:
    """A new token of a service account; it never expires, whatever was asked."""
    yield from ()
    record = writer.find(ask.target)
    name = f"system:serviceaccount:{record.namespace}:{record.name}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{record.namespace}",
              "system:authenticated")  # fmt: skip
    token = writer.world.uid()
    access.lend(token, AuthenticatedUser(name, record.uid, groups))
    status = {"token": token, "expirationTimestamp": stamp(writer.world.now() + 3600)}
    return answer(201, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
                        "metadata": {}, "spec": {}, "status": status})  # fmt: skip


_POSTED: Final[Mapping[str, Callable[[Writer, Access, WriteRequest, HttpCall], Steps]]] = {
    "binding": _bind, "eviction": _evict, "token": _token,
}  # fmt: skip
_WRITES: Final[Mapping[str, Callable[[Writer, WriteRequest, HttpCall], Steps]]] = {
    "POST": _create, "PUT": _update, "PATCH": _patch, "DELETE": _delete,
}  # fmt: skip
