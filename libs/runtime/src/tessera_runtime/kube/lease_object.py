"""A Lease as the API server keeps it. Its times are for people: nobody reckons with them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime.errors import ApiRefused
from tessera_schema.json_codec import decoder


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """`spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class OwnerReference(Struct, frozen=True, rename="camel"):
    """An object without which the Lease is deleted by the garbage collector."""

    api_version: str
    kind: str
    name: str
    uid: str


class LeaseMeta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which Lease, at which version; empty for one that is to be made."""

    namespace: str
    name: str
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class LeaseObject(Struct, frozen=True, rename="camel"):
    """A Lease (coordination.k8s.io/v1), as far as it is read."""

    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


_read: Final = decoder(LeaseObject)


def version_of(lease: LeaseObject | None) -> str:
    """Its resource version; empty where there is no Lease."""
    return lease.metadata.resource_version if lease is not None else ""


def parsed(answer: bytes) -> LeaseObject:
    """The Lease of an answer. Raises ApiRefused where it is none."""
    try:
        return _read(answer)
    except msgspec.DecodeError as e:
        raise ApiRefused(200, "", f"not a Lease: {e}") from e
