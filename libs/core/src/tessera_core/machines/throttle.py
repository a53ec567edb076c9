"""What becomes of a group that uses more than its quota.

    WITHIN --Exceeded--> GRACE --GraceExpired--> THROTTLED
       ^                   |                         |
       +---ReturnedBelow---+------ReturnedBelow------+

New pods wait as soon as there is no room, in every phase: that is the scheduler's doing, and needs
no phase. This is about what already runs: it keeps its cards and its memory, and after a time of
grace gets less of their cores, until the group has returned below its quota by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine


class ThrottlePhase(StrEnum):
    """Where a group is, and who moves it on."""

    WITHIN = "Within"
    """It uses what it may; using more moves it on."""
    GRACE = "Grace"
    """It uses more than it may, and is warned; using less moves it back, time moves it on."""
    THROTTLED = "Throttled"
    """It still uses more, with less of the cores; using less moves it back."""


class Exceeded(Struct, frozen=True, tag=True):
    """More is used than the quota allows now."""


class GraceExpired(Struct, frozen=True, tag=True):
    """It has been so for the whole time of grace."""


class ReturnedBelow(Struct, frozen=True, tag=True):
    """What is used is allowed."""


Event = Exceeded | GraceExpired | ReturnedBelow

LEGAL: Final[Mapping[tuple[ThrottlePhase, type[Event]], ThrottlePhase]] = {
    (ThrottlePhase.WITHIN, Exceeded): ThrottlePhase.GRACE,
    (ThrottlePhase.WITHIN, ReturnedBelow): ThrottlePhase.WITHIN,
    (ThrottlePhase.GRACE, Exceeded): ThrottlePhase.GRACE,
    (ThrottlePhase.GRACE, GraceExpired): ThrottlePhase.THROTTLED,
    (ThrottlePhase.GRACE, ReturnedBelow): ThrottlePhase.WITHIN,
    (ThrottlePhase.THROTTLED, Exceeded): ThrottlePhase.THROTTLED,
    (ThrottlePhase.THROTTLED, ReturnedBelow): ThrottlePhase.WITHIN,
}

advance: Final = StateMachine[ThrottlePhase, Event](LEGAL).advance
