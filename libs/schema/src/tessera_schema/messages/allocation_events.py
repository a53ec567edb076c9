"""Events about allocations; the bus carries them as
`tessera.v1.<cluster>.allocation.<namespace>.<pod uid>.<what>`.

The API server has the truth: a message may come twice, late, or never. Consumers recognise repeats
by uid and phase.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.reasons import Reason
from tessera_schema.subjects import allocation


class AllocationGranted(Struct, frozen=True, tag="granted", tag_field="what", kw_only=True):
    """Cards are held for a pod."""

    grant: Grant


class AllocationPrepared(Struct, frozen=True, tag="prepared", tag_field="what", kw_only=True):
    """The agent has given a container its cards."""

    namespace: str
    uid: str
    name: str
    node: str
    container: str


class AllocationRunning(Struct, frozen=True, tag="running", tag_field="what", kw_only=True):
    """A container that holds shares has started."""

    namespace: str
    uid: str
    name: str
    node: str
    container: str


class AllocationReleased(Struct, frozen=True, tag="released", tag_field="what", kw_only=True):
    """A pod's cards are free again."""

    namespace: str
    uid: str
    node: str


class AllocationRefused(Struct, frozen=True, tag="refused", tag_field="what", kw_only=True):
    """A pod waits or was rejected; the numbers are in its decision record."""

    namespace: str
    uid: str
    reason: Reason
    message: str


AllocationEvent = (
    AllocationGranted
    | AllocationPrepared
    | AllocationRunning
    | AllocationReleased
    | AllocationRefused
)

_decode: Callable[[bytes | str], AllocationEvent] = decoder(AllocationEvent)
_encode = msgspec.json.Encoder().encode


def decode_event(data: bytes) -> AllocationEvent:
    """Raises msgspec.DecodeError."""
    return _decode(data)


def encode_event(event: AllocationEvent) -> bytes:
    """The message's data."""
    return _encode(event)


def subject(cluster: str, event: AllocationEvent) -> str:
    """The subject that the event is published on."""
    about = event.grant if isinstance(event, AllocationGranted) else event
    what = event.__struct_config__.tag
    return allocation(cluster, about.namespace, about.uid, str(what))
