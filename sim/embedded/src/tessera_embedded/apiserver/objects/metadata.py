"""The metadata of every object: its shape, what the server alone sets, and what must be right.

Not kept: managedFields. Nothing of Tessera reads them, and server-side apply is not served.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.errors import BadRequest, Cause, JsonObject, not_allowed, wrong
from tessera_embedded.apiserver.objects.name_validation import (
    annotation_causes,
    label_causes,
    name_causes,
)
from tessera_embedded.apiserver.objects.resources import Resource


class _Owner(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(Struct, frozen=True, rename="camel"):
    """The types of the fields; conversion of a decoded object to it is the check."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


_SERVERS_OWN: Final = ("uid", "creationTimestamp", "deletionTimestamp",
                       "deletionGracePeriodSeconds", "generation", "selfLink")  # fmt: skip
_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_EMPTY_IS_UNSET: Final = (
    "labels", "annotations", "finalizers", "ownerReferences", "generateName", "namespace",
    "creationTimestamp", "resourceVersion", "uid",
)  # fmt: skip


def stamp(now: float) -> str:
    """RFC 3339 of seconds since the epoch, to the second, as metadata has it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """The seconds since the epoch of an RFC 3339 text."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def decode(body: bytes, resource: Resource) -> JsonObject:
    """The object of a request body, its kind checked and metadata well-formed, or BadRequest."""
    return checked_kind(json_object(body), resource)


def json_object(body: bytes) -> JsonObject:
    """The JSON object that a body is. Raises BadRequest."""
    try:
        obj = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BadRequest(f"the body is not JSON: {e}") from e
    if not isinstance(obj, dict):
        raise BadRequest(f"the body is not a JSON object but {type(obj).__name__}")
    return obj


def checked_kind(obj: JsonObject, resource: Resource) -> JsonObject:
    """The object without kind and apiVersion, which must be its own, and well-formed."""
    kind, version = obj.pop("kind", None), obj.pop("apiVersion", None)
    if resource.custom and not (kind and version):
        raise BadRequest("Object 'Kind' or 'apiVersion' is missing")
    if version not in (None, "", resource.api_version):
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind not in (None, "", resource.kind):
        raise BadRequest(
            f"{resource.kind} in version {resource.version!r} cannot be handled as a "
            f"{resource.kind}: the kind in the data is {kind!r}"
        )
    return shaped(obj)


def shaped(obj: JsonObject) -> JsonObject:
    """The object without nulls and empty metadata, its metadata well-formed, or BadRequest."""
    cleaned: JsonObject = without_nulls(obj)
    metadata = cleaned.setdefault("metadata", {})
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as e:
        raise BadRequest(f"metadata cannot be read: {e}") from e
    metadata.pop("managedFields", None)
    for name in _EMPTY_IS_UNSET:
        if name in metadata and not metadata[name]:
            del metadata[name]
    return cleaned


def without_nulls(value: Any) -> Any:
    """The same value without fields that are null: in Kubernetes they are unset."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def forget_servers_own(obj: JsonObject) -> None:
    """Drop from a new object what only the server may set."""
    for name in _SERVERS_OWN:
        obj["metadata"].pop(name, None)


def keep_servers_own(new: JsonObject, old: JsonObject) -> None:
    """Give an update the fields that only the server may set, as they are."""
    for name in _SERVERS_OWN:
        new["metadata"].pop(name, None)
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]


def check(obj: JsonObject, resource: Resource) -> list[Cause]:
    """What is wrong with an object's metadata."""
    metadata = obj["metadata"]
    return [
        *name_causes(metadata.get("name", ""), label=resource.plural == "namespaces"),
        *label_causes("metadata.labels", metadata.get("labels", {})),
        *annotation_causes("metadata.annotations", metadata.get("annotations", {})),
        *([] if resource.custom else _finalizer_causes(metadata.get("finalizers", ()))),
    ]


def _finalizer_causes(finalizers: Sequence[str]) -> list[Cause]:
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{index}]", name, why)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in _FINALIZERS
    ]


def check_update(new: JsonObject, old: JsonObject) -> list[Cause]:
    """What may not change, or not any more."""
    causes = []
    if new["metadata"].get("name") != old["metadata"]["name"]:
        causes.append(wrong("metadata.name", new["metadata"].get("name"), "field is immutable"))
    if "deletionTimestamp" in old["metadata"]:
        had = set(old["metadata"].get("finalizers", ()))
        more = sorted(set(new["metadata"].get("finalizers", ())) - had)
        if more:
            why = "no new finalizers can be added if the object is being deleted, found new "
            causes.append(not_allowed("metadata.finalizers", f"{why}finalizers {more}"))
    return causes
