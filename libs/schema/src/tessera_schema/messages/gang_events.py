"""Events about gangs and queues; the bus carries them as
`tessera.v1.<cluster>.gang.<namespace>.<gang>.<what>` and
`tessera.v1.<cluster>.queue.<API group>.<queue>.state`.

Pods and PodGroups in the API server have the truth: a message may come twice, late, or never.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder
from tessera_schema.queue_states import QueueState
from tessera_schema.subjects import gang, queue


class GangChange(StrEnum):
    """What has happened to a gang."""

    WAITING = "waiting"
    RESERVED = "reserved"
    MISSED = "missed"
    STARTED = "started"
    BROKEN = "broken"
    ENDED = "ended"


class GangChanged(Struct, frozen=True, kw_only=True):
    """A gang has come to another phase, or waits for another reason."""

    what: GangChange
    gang: str
    """Its id: whose object it is, namespace, name."""
    namespace: str
    name: str
    min: int
    """Members that have to start together."""
    members: int
    """Its pods that have not ended."""
    bound: int
    """Those of them that have a node."""
    queue: str = ""
    """Name of the queue that it is in; empty for none, and where no queues are read."""
    message: str = ""
    """Why it waits, or what has happened, in numbers."""


_encode: Final = msgspec.json.Encoder().encode
_decode_gang: Callable[[bytes | str], GangChanged] = decoder(GangChanged)
_decode_queue: Callable[[bytes | str], QueueState] = decoder(QueueState)


def encode_gang_event(event: GangChanged | QueueState) -> bytes:
    """The message's data."""
    return _encode(event)


def decode_gang(data: bytes) -> GangChanged:
    """Raises msgspec.DecodeError."""
    return _decode_gang(data)


def decode_queue(data: bytes) -> QueueState:
    """Raises msgspec.DecodeError."""
    return _decode_queue(data)


def gang_subject(cluster: str, event: GangChanged | QueueState) -> str:
    """The subject that the event is published on."""
    if isinstance(event, GangChanged):
        return gang(cluster, event.namespace, event.name, event.what)
    return queue(cluster, event.group, event.name)
