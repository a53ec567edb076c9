"""The life of a pod's allocation in the ledger.

    RESERVED --Sent--> BINDING --Bound--> BOUND --Ended--> RELEASED
        |                 |
        |                 +--OutcomeUnknown--> UNSETTLED --Bound--> BOUND
        +--Expired------> RELEASED <---Refused---+

Cards are held in every phase but RELEASED. Only a definite answer of the API server frees what
was sent to it; time alone frees only what never left this process. The watch may show a pod bound
before its Binding is answered: then the answer, whatever it is, changes nothing. An unknown outcome
is settled by reading the pod; a pod that is read unbound may still be bound late, so that settles
nothing until the same Binding was sent once more and answered, or is too old to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class Phase(StrEnum):
    """Where an allocation is, and who moves it on."""

    RESERVED = "reserved"
    """Chosen by filter; bind sends it, or time ends it."""
    BINDING = "binding"
    """The Binding is under way; its answer moves it on."""
    UNSETTLED = "unsettled"
    """The answer was lost; a quorum read of the pod moves it on."""
    BOUND = "bound"
    """The API server has it; the pod's end moves it on."""
    RELEASED = "released"
    """Holds nothing."""


class Sent(Struct, frozen=True, tag=True):
    """The Binding was sent."""


class Bound(Struct, frozen=True, tag=True):
    """The API server shows the pod with this grant."""


class Refused(Struct, frozen=True, tag=True):
    """The API server definitely did not accept the Binding."""


class OutcomeUnknown(Struct, frozen=True, tag=True):
    """Time-out, reset or 5xx: the Binding may or may not have been written."""


class Expired(Struct, frozen=True, tag=True):
    """A reservation was not used in time."""


class Ended(Struct, frozen=True, tag=True):
    """The pod is gone or terminal."""


Event = Sent | Bound | Refused | OutcomeUnknown | Expired | Ended

LEGAL: Final[Mapping[tuple[Phase, type[Event]], Phase]] = {
    (Phase.RESERVED, Sent): Phase.BINDING,
    (Phase.RESERVED, Bound): Phase.BOUND,
    (Phase.RESERVED, Refused): Phase.RELEASED,
    (Phase.RESERVED, Expired): Phase.RELEASED,
    (Phase.RESERVED, Ended): Phase.RELEASED,
    (Phase.BINDING, Bound): Phase.BOUND,
    (Phase.BINDING, Refused): Phase.RELEASED,
    (Phase.BINDING, OutcomeUnknown): Phase.UNSETTLED,
    (Phase.BINDING, Ended): Phase.RELEASED,
    (Phase.UNSETTLED, OutcomeUnknown): Phase.UNSETTLED,
    (Phase.UNSETTLED, Bound): Phase.BOUND,
    (Phase.UNSETTLED, Refused): Phase.RELEASED,
    (Phase.UNSETTLED, Ended): Phase.RELEASED,
    (Phase.BOUND, Sent): Phase.BOUND,
    (Phase.BOUND, Bound): Phase.BOUND,
    (Phase.BOUND, Refused): Phase.BOUND,
    (Phase.BOUND, OutcomeUnknown): Phase.BOUND,
    (Phase.BOUND, Ended): Phase.RELEASED,
}


class IllegalTransition(Exception):
    """An event that cannot happen in this phase: a bug, never a user's input."""


def advance(phase: Phase, event: Event) -> Phase:
    """The next phase. Raises IllegalTransition."""
    try:
        return LEGAL[phase, type(event)]
    except KeyError:
        raise IllegalTransition(f"{type(event).__name__} in phase {phase}") from None
