"""The way of a gang from its first pod to its start. Gangs of one bundle go it together.

    GATHERING --QuorumReached--> QUEUED --MembersReserved--> RESERVED --MemberArrived--> BINDING
        ^                         ^  |                          |                          |
        |                         |  |        (BarrierMissed) --+--------------------------+
        +-------QuorumLost--------+--+                                                     |
                                                                                     AllArrived
                                                                                           v
    BROKEN <--MinimumLost-- STARTED <-----------------MinimumBound--------------------- COMMITTED
       |                       ^                                                           |
       +-----MinimumBound------+                 BROKEN <-----------MinimumLost------------+

BINDING is the bind barrier: the members' bind calls wait for each other, and nothing is written
yet. Nothing leads back from COMMITTED to QUEUED. A broken gang has fewer pods with a node than its
minimum: its missing members are reserved again, before all other gangs. A scheduler that takes over
finds gangs that have started or are broken, so a way leads from GATHERING to both. OVER is a gang
without pods; what comes after it is another gang.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine


class GangPhase(StrEnum):
    """Where a gang is, and what moves it on."""

    GATHERING = "gathering"
    """Too few pods of it exist; more of them move it on."""
    QUEUED = "queued"
    """Enough pods exist; its turn, and room for all of them, moves it on. It holds nothing."""
    RESERVED = "reserved"
    """The ledger holds cards for its members; the first bind call moves it on, or time."""
    BINDING = "binding"
    """Bind calls wait for each other; the last one moves it on, or time."""
    COMMITTED = "committed"
    """All have arrived: Bindings are sent. The watch moves it on, or time."""
    STARTED = "started"
    """So many of its pods have a node as its minimum says."""
    BROKEN = "broken"
    """Some of its pods have a node, and fewer than its minimum."""
    OVER = "over"
    """It has no pods."""


class QuorumReached(Struct, frozen=True, tag=True):
    """So many pods exist that it may start."""


class QuorumLost(Struct, frozen=True, tag=True):
    """Too few pods exist, or its objects no longer allow it to start."""


class MembersReserved(Struct, frozen=True, tag=True):
    """The ledger took all members that start together."""


class MemberArrived(Struct, frozen=True, tag=True):
    """kube-scheduler called bind for a member."""


class BarrierMissed(Struct, frozen=True, tag=True):
    """Time is up, or a reservation is gone: what was reserved is free again."""


class AllArrived(Struct, frozen=True, tag=True):
    """Every member that was reserved has arrived."""


class MinimumBound(Struct, frozen=True, tag=True):
    """As many pods have a node as the minimum says."""


class MinimumLost(Struct, frozen=True, tag=True):
    """Fewer do, and no Binding is on its way."""


class MembersGone(Struct, frozen=True, tag=True):
    """It has no pods any more."""


Event = (
    QuorumReached | QuorumLost | MembersReserved | MemberArrived | BarrierMissed | AllArrived
    | MinimumBound | MinimumLost | MembersGone
)  # fmt: skip

LEGAL: Final[Mapping[tuple[GangPhase, type[Event]], GangPhase]] = {
    (GangPhase.GATHERING, QuorumReached): GangPhase.QUEUED,
    (GangPhase.GATHERING, MinimumBound): GangPhase.STARTED,
    (GangPhase.GATHERING, MinimumLost): GangPhase.BROKEN,
    (GangPhase.GATHERING, MembersGone): GangPhase.OVER,
    (GangPhase.QUEUED, QuorumLost): GangPhase.GATHERING,
    (GangPhase.QUEUED, MembersReserved): GangPhase.RESERVED,
    (GangPhase.QUEUED, MinimumBound): GangPhase.STARTED,
    (GangPhase.QUEUED, MinimumLost): GangPhase.BROKEN,
    (GangPhase.QUEUED, MembersGone): GangPhase.OVER,
    (GangPhase.RESERVED, MemberArrived): GangPhase.BINDING,
    (GangPhase.RESERVED, BarrierMissed): GangPhase.QUEUED,
    (GangPhase.RESERVED, AllArrived): GangPhase.COMMITTED,
    (GangPhase.BINDING, MemberArrived): GangPhase.BINDING,
    (GangPhase.BINDING, BarrierMissed): GangPhase.QUEUED,
    (GangPhase.BINDING, AllArrived): GangPhase.COMMITTED,
    (GangPhase.COMMITTED, MinimumBound): GangPhase.STARTED,
    (GangPhase.COMMITTED, MinimumLost): GangPhase.BROKEN,
    (GangPhase.COMMITTED, MembersGone): GangPhase.OVER,
    (GangPhase.STARTED, MinimumBound): GangPhase.STARTED,
    (GangPhase.STARTED, MinimumLost): GangPhase.BROKEN,
    (GangPhase.STARTED, QuorumLost): GangPhase.GATHERING,
    (GangPhase.STARTED, MembersGone): GangPhase.OVER,
    (GangPhase.BROKEN, MembersReserved): GangPhase.RESERVED,
    (GangPhase.BROKEN, MinimumBound): GangPhase.STARTED,
    (GangPhase.BROKEN, QuorumLost): GangPhase.GATHERING,
    (GangPhase.BROKEN, MembersGone): GangPhase.OVER,
}

advance: Final = StateMachine[GangPhase, Event](LEGAL).advance
