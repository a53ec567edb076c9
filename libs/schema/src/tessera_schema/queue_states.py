"""Queues as they stand, for messages and lists."""

from __future__ import annotations

from msgspec import Struct


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
    weight_lost: float = 0
    """The part of its weight that what it has used in the past takes from it."""
    by: str = ""
    """What decides its share; empty for a queue within what it deserves."""
    amounts: tuple[QueueAmount, ...] = ()
    waiting_gangs: int = 0
    waiting_pods: int = 0
    """Of waiting gangs, and of no gang."""
    waits_since: float = 0
    """When the one that waits longest began to wait, Unix time; 0 = none waits."""
    expected_start: float = 0
    """When the first of them is expected to start, Unix time; 0 = nobody knows."""
