"""Queues as the API `visibility.tessera.dev` lists them: in numbers, and who waits, in order."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_schema.endpoints.visibility import API_VERSION, ExplanationListMeta
from tessera_schema.json_codec import decoder
from tessera_schema.queue_states import QueueState

QUEUES_PLURAL: Final = "queuestates"
QUEUES_KIND: Final = "QueueState"


class QueueName(Struct, frozen=True, kw_only=True):
    """Identity of the queue."""

    name: str


class WaitingInQueue(Struct, frozen=True, kw_only=True, rename="camel"):
    """A gang, or a pod of no gang, that waits. One that the caller may not read has no names."""

    position: int
    """1 = the next one of its queue."""
    kind: str
    """Gang or Pod."""
    namespace: str = ""
    name: str = ""
    pods: int
    """Its pods without a node."""
    reason: str = ""
    waits_since: str
    """RFC 3339."""
    expected_start: str = ""
    """RFC 3339; empty = nobody knows."""


class ListedQueue(Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue."""

    kind: str = QUEUES_KIND
    api_version: str = API_VERSION
    metadata: QueueName
    state: QueueState
    waiting: tuple[WaitingInQueue, ...] = ()
    more_waiting: int = 0
    """Those that were left out of `waiting`."""


class ListedQueues(Struct, frozen=True, kw_only=True, rename="camel"):
    """All queues that the caller may see, parents before their children."""

    kind: str = f"{QUEUES_KIND}List"
    api_version: str = API_VERSION
    metadata: ExplanationListMeta = ExplanationListMeta()
    items: tuple[ListedQueue, ...] = ()


decode_listed_queues = decoder(ListedQueues)
