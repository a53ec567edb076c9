"""Objects of our own in the API server that several replicas make and change: each change is made
to what was read, and made again when another replica came first.

A change must be harmless when it is made twice: a lost answer leads to another attempt.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound, Permanent, Transient
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.json_codec import decoder

Json = dict[str, Any]
T = TypeVar("T")

ATTEMPTS: Final = 20
"""Of one change, when others keep coming first."""

_log = logs.named("tessera.scheduler.kept")
_read = decoder(Json)


class UnexpectedContent(Permanent):
    """An object holds something else than we once wrote there; the message names it."""


class Contended(Permanent):
    """Others changed the object each time between our reading and writing it."""


class ObjectLocation(Struct, frozen=True, kw_only=True):
    """Where an object is: its collection's path, its kind, its name."""

    collection: str
    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @property
    def path(self) -> str:
        """Of the object itself."""
        return f"{self.collection}/{self.name}"

    def object(self, **parts: object) -> Json:
        """An object there."""
        metadata: Json = {"name": self.name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **parts,
        }  # fmt: skip


def secret(namespace: str, name: str) -> ObjectLocation:
    """The place of a Secret."""
    return _core("secrets", "Secret", namespace, name)


def config_map(namespace: str, name: str) -> ObjectLocation:
    """The place of a ConfigMap."""
    return _core("configmaps", "ConfigMap", namespace, name)


def _core(plural: str, kind: str, namespace: str, name: str) -> ObjectLocation:
    return ObjectLocation(
        collection=f"/api/v1/namespaces/{namespace}/{plural}", api_version="v1", kind=kind,
        name=name, namespace=namespace,
    )  # fmt: skip


async def create_or_update(
    kube: Kube, place: ObjectLocation, change: Callable[[Json | None], Json | None]
) -> Json:
    """The object as `change` wants it; it is given what is there (None: nothing) and answers the
    whole object, or None where all is well. Raises Contended, and what `Kube.call` raises."""
    for _ in range(ATTEMPTS):
        there = await _get(kube, place)
        wanted = change(there)
        if wanted is None:
            return there or {}
        body = msgspec.json.encode(wanted)
        try:
            if there is None:
                return _read(await kube.call(Verb.POST, place.collection, body=body))
            return await _replaced(kube, place, body)
        except (ApiConflict, _Gone):
            continue
    raise Contended(f"{place.kind} {place.name}: changed {ATTEMPTS} times by others meanwhile")


class _Gone(Exception):
    """Deleted between our reading and writing it."""


async def _replaced(kube: Kube, place: ObjectLocation, body: bytes) -> Json:
    try:
        return _read(await kube.call(Verb.PUT, place.path, body=body))
    except ApiNotFound as e:
        raise _Gone from e


async def _get(kube: Kube, place: ObjectLocation) -> Json | None:
    try:
        return _read(await kube.call(Verb.GET, place.path))
    except ApiNotFound:
        return None


async def retry_until_answered(look: Callable[[], Awaitable[T]], retry_s: float) -> T:
    """Do it once, however long the API server takes to answer. Raises Permanent."""
    while True:
        try:
            return await look()
        except Transient as e:
            _log.warning("the API server is waited for", problem=str(e))
            await asyncio.sleep(retry_s)


async def repeat_until_cancelled(look: Callable[[], Awaitable[None]], every_s: float) -> None:
    """Do it again and again until cancelled. What goes wrong is logged, and what was known before
    goes on serving."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await look()
        except Transient as e:
            _log.warning("not looked after this time", problem=str(e))
        except Permanent as e:
            _log.alert("somebody has to look", problem=str(e))


def to_secret(data: bytes) -> str:
    """A value as a Secret carries it."""
    return base64.b64encode(data).decode()


def from_secret(place: ObjectLocation, found: Mapping[str, Any], key: str) -> bytes | None:
    """An entry of a Secret, None where it has none. Raises UnexpectedContent."""
    text = (found.get("data") or {}).get(key)
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as e:
        raise UnexpectedContent(
            f"{place.kind} {place.namespace}/{place.name}: data[{key}]: not base64: delete the "
            "Secret, and another one is made"
        ) from e
