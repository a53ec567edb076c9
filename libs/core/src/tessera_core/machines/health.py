"""The health of one card, as its agent sees it.

    UNSEEN --Answered--> HEALTHY --Missed--> SUSPECT --Missed--> GONE
                          ^   ^                 |                  |
                          |   +----Answered-----+                  |
                      Recovered                                 Answered
                          |                                        |
                     UNHEALTHY <-----------------------------------+

Faulted leads from every phase to UNHEALTHY; UNSEEN and UNHEALTHY that are Missed are GONE.

Pods are placed only where the phase is HEALTHY, or SUSPECT on the way down: one missed poll takes
no capacity away, a fault does at once. What was lost comes back through Recovered alone, which the
caller that counts polls sends it after enough good ones in a row; so a card that flaps stays out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine


class HealthPhase(StrEnum):
    """Where a card is, and who moves it on."""

    UNSEEN = "unseen"
    """Known by name only; the first answer moves it on."""
    HEALTHY = "healthy"
    """May take pods; a fault or a missed poll moves it on."""
    SUSPECT = "suspect"
    """Did not answer once, and still counts; the next poll moves it on, so it ends by time."""
    UNHEALTHY = "unhealthy"
    """Takes no pods; good polls in a row move it on."""
    GONE = "gone"
    """Does not answer; its next answer moves it on."""


class Answered(Struct, frozen=True, tag=True):
    """A poll saw the card, and nothing wrong with it."""


class Faulted(Struct, frozen=True, tag=True):
    """The card or its driver reported something that work on it does not survive."""


class Recovered(Struct, frozen=True, tag=True):
    """Enough good polls in a row."""


class Missed(Struct, frozen=True, tag=True):
    """A poll went by without the card; once more when its agent's patience is over."""


Event = Answered | Faulted | Recovered | Missed

LEGAL: Final[Mapping[tuple[HealthPhase, type[Event]], HealthPhase]] = {
    (HealthPhase.UNSEEN, Answered): HealthPhase.HEALTHY,
    (HealthPhase.UNSEEN, Faulted): HealthPhase.UNHEALTHY,
    (HealthPhase.UNSEEN, Missed): HealthPhase.GONE,
    (HealthPhase.HEALTHY, Answered): HealthPhase.HEALTHY,
    (HealthPhase.HEALTHY, Recovered): HealthPhase.HEALTHY,
    (HealthPhase.HEALTHY, Faulted): HealthPhase.UNHEALTHY,
    (HealthPhase.HEALTHY, Missed): HealthPhase.SUSPECT,
    (HealthPhase.SUSPECT, Answered): HealthPhase.HEALTHY,
    (HealthPhase.SUSPECT, Recovered): HealthPhase.HEALTHY,
    (HealthPhase.SUSPECT, Faulted): HealthPhase.UNHEALTHY,
    (HealthPhase.SUSPECT, Missed): HealthPhase.GONE,
    (HealthPhase.UNHEALTHY, Answered): HealthPhase.UNHEALTHY,
    (HealthPhase.UNHEALTHY, Recovered): HealthPhase.HEALTHY,
    (HealthPhase.UNHEALTHY, Faulted): HealthPhase.UNHEALTHY,
    (HealthPhase.UNHEALTHY, Missed): HealthPhase.GONE,
    (HealthPhase.GONE, Answered): HealthPhase.UNHEALTHY,
    (HealthPhase.GONE, Faulted): HealthPhase.UNHEALTHY,
    (HealthPhase.GONE, Missed): HealthPhase.GONE,
}

advance: Final = StateMachine[HealthPhase, Event](LEGAL).advance


def takes_pods(phase: HealthPhase) -> bool:
    """Whether a card in this phase is published as healthy."""
    return phase in (HealthPhase.HEALTHY, HealthPhase.SUSPECT)
