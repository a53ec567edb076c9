"""Changes of parts of objects, with the preconditions that make them safe to send late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_runtime.errors import ApiConflict, ApiRefused
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.lists import Identity, identity

_encode: Final = msgspec.json.Encoder().encode


class JsonPatchOperation(Struct, frozen=True, omit_defaults=True):
    """One step of a JSON patch; `test` makes all of it fail unless the value is there."""

    op: str
    path: str
    value: Any | UnsetType = UNSET


def require(path: str, value: object) -> JsonPatchOperation:
    """Nothing is done unless this value is there."""
    return JsonPatchOperation("test", path, value)


def add(path: str, value: object) -> JsonPatchOperation:
    """Set it, whether it is there or not; its parent must be there."""
    return JsonPatchOperation("add", path, value)


def remove(path: str) -> JsonPatchOperation:
    """Take it away; it must be there."""
    return JsonPatchOperation("remove", path)


def pointer(*keys: str) -> str:
    """A JSON pointer; annotation keys may contain slashes."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def annotations_body(
    annotations: Mapping[str, str | None], *, uid: str = "", resource_version: str = ""
) -> bytes:
    """A merge patch that sets annotations, and takes away those that are None.

    With `uid` it is refused when the name now belongs to another object; with
    `resource_version` when anything else has changed since.
    """
    return _metadata_body({"annotations": annotations}, uid, resource_version)


def _metadata_body(metadata: Mapping[str, object], uid: str, resource_version: str) -> bytes:
    whole = dict(metadata)
    if uid:
        whole["uid"] = uid
    if resource_version:
        whole["resourceVersion"] = resource_version
    return _encode({"metadata": whole})


async def annotate(
    kube: Kube,
    path: str,
    annotations: Mapping[str, str | None],
    *,
    uid: str = "",
    resource_version: str = "",
) -> Identity:
    """Set or take away annotations of the object at `path`; gives its new version.

    Raises as `Kube.call` does: ApiConflict where a precondition fails. Doing it twice is harmless.
    """
    body = annotations_body(annotations, uid=uid, resource_version=resource_version)
    return await _merged(kube, path, body, uid)


async def label(kube: Kube, path: str, labels: Mapping[str, str | None], *, uid: str) -> Identity:
    """The same with labels."""
    return await _merged(kube, path, _metadata_body({"labels": labels}, uid, ""), uid)


async def _merged(kube: Kube, path: str, body: bytes, uid: str) -> Identity:
    try:
        return identity(await kube.call(Verb.PATCH, path, body=body, kind=Body.MERGE_PATCH))
    except ApiRefused as e:
        if uid and e.status == 422 and "metadata.uid" in e.message:  # its way of saying so
            raise ApiConflict(e.status, e.reason, e.message) from e
        raise


async def json_patch(kube: Kube, path: str, operations: list[JsonPatchOperation]) -> Identity:
    """Apply all of these steps or none; gives the object's new version.

    Raises as `Kube.call` does; a `require` that fails is ApiRefused with status 422.
    """
    body = _encode(operations)
    return identity(await kube.call(Verb.PATCH, path, body=body, kind=Body.JSON_PATCH))
