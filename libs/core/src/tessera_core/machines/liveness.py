"""Whether an agent is there, as the renewals of its Lease show.

    EXPECTED --Renewed--> LIVE --Lapsed--> SILENT --Renewed--> LIVE
       |                   |                 ^
       +------Lapsed-------|-----------------+
                           |                 |
                         Looped            Lapsed
                           v                 |
                        PROVING -------------+
                           |
                           +--Proved--> LIVE

Looped leads from every phase to PROVING; a PROVING agent that is Renewed stays PROVING.

Pods are placed where the phase is EXPECTED or LIVE. An agent that starts again and again renews its
Lease each time, and dies before it can give a container its cards: it has to prove itself first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine


class LivenessPhase(StrEnum):
    """Where an agent is, and what moves it on."""

    EXPECTED = "expected"
    """Its node says that it renews a Lease, and no renewal was observed yet; it ends by time."""
    LIVE = "live"
    """Renews its Lease; a renewal that does not come in time moves it on."""
    SILENT = "silent"
    """Has not renewed its Lease in time; its next renewal moves it on."""
    PROVING = "proving"
    """Has started again and again; enough time with renewals, or too long without, moves it on."""


class Renewed(Struct, frozen=True, tag=True):
    """The agent renewed its Lease."""


class Lapsed(Struct, frozen=True, tag=True):
    """The Lease was not renewed for as long as a renewal counts."""


class Looped(Struct, frozen=True, tag=True):
    """The agent has started too often in a short time."""


class Proved(Struct, frozen=True, tag=True):
    """The agent has renewed its Lease for long enough since it last started."""


Event = Renewed | Lapsed | Looped | Proved

LEGAL: Final[Mapping[tuple[LivenessPhase, type[Event]], LivenessPhase]] = {
    (LivenessPhase.EXPECTED, Renewed): LivenessPhase.LIVE,
    (LivenessPhase.EXPECTED, Lapsed): LivenessPhase.SILENT,
    (LivenessPhase.EXPECTED, Looped): LivenessPhase.PROVING,
    (LivenessPhase.LIVE, Renewed): LivenessPhase.LIVE,
    (LivenessPhase.LIVE, Lapsed): LivenessPhase.SILENT,
    (LivenessPhase.LIVE, Looped): LivenessPhase.PROVING,
    (LivenessPhase.SILENT, Renewed): LivenessPhase.LIVE,
    (LivenessPhase.SILENT, Lapsed): LivenessPhase.SILENT,
    (LivenessPhase.SILENT, Looped): LivenessPhase.PROVING,
    (LivenessPhase.PROVING, Renewed): LivenessPhase.PROVING,
    (LivenessPhase.PROVING, Lapsed): LivenessPhase.SILENT,
    (LivenessPhase.PROVING, Looped): LivenessPhase.PROVING,
    (LivenessPhase.PROVING, Proved): LivenessPhase.LIVE,
}

advance: Final = StateMachine[LivenessPhase, Event](LEGAL).advance
