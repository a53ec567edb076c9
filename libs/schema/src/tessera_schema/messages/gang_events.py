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


class QueueAmount(Struct, frozen=True, kw_only=True):
    """What a queue has of one resource: pieces, bytes, percent of a card's cores, or thousandths of
    a CPU."""

    what: str
    """`cards`, `memory` or `cores` of a vendor's cards; else the resource's name."""
    vendor: str = ""
    """Make of the cards; empty for a resource that is no card's."""
    used: float = 0
    """By the queue and those below it."""
    guarantee: float = 0
    """Never lent."""
    deserved: float = 0
    """Lent while it is idle."""
    cap: float | None = None
    """The most that it may use; null = not limited."""


class QueueState(Struct, frozen=True, kw_only=True):
    """One queue as it stands."""

    group: str
    """API group of its kind."""
    kind: str
    name: str
    """An ElasticQuota's is `namespace/name` where its system has it so."""
    parent: str = ""
    problem: str = ""
    """Why it takes no pods; empty for one that does."""
    share: float = 0
    """The part of the cluster that it uses beyond what it deserves, by weight."""
    within: float = 0
    """The part of what it deserves that it uses."""
    by: str = ""
    """What decides its share; empty for a queue within what it deserves."""
    amounts: tuple[QueueAmount, ...] = ()
    waiting_gangs: int = 0
    waiting_pods: int = 0
    """Of waiting gangs, and of no gang."""
    waits_since: float = 0
    """When the one that waits longest began to wait, Unix time; 0 = none waits."""


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
