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

from tessera_core.machines.state_machine import StateMachine


class AllocationPhase(StrEnum):
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


class BindingRefused(Struct, frozen=True, tag=True):
    """The API server definitely did not accept the Binding."""


class OutcomeUnknown(Struct, frozen=True, tag=True):
    """Time-out, reset or 5xx: the Binding may or may not have been written."""


class Expired(Struct, frozen=True, tag=True):
    """A reservation was not used in time."""


class Ended(Struct, frozen=True, tag=True):
    """The pod is gone or terminal."""


Event = Sent | Bound | BindingRefused | OutcomeUnknown | Expired | Ended

LEGAL: Final[Mapping[tuple[AllocationPhase, type[Event]], AllocationPhase]] = {
    (AllocationPhase.RESERVED, Sent): AllocationPhase.BINDING,
    (AllocationPhase.RESERVED, Bound): AllocationPhase.BOUND,
    (AllocationPhase.RESERVED, BindingRefused): AllocationPhase.RELEASED,
    (AllocationPhase.RESERVED, Expired): AllocationPhase.RELEASED,
    (AllocationPhase.RESERVED, Ended): AllocationPhase.RELEASED,
    (AllocationPhase.BINDING, Bound): AllocationPhase.BOUND,
    (AllocationPhase.BINDING, BindingRefused): AllocationPhase.RELEASED,
    (AllocationPhase.BINDING, OutcomeUnknown): AllocationPhase.UNSETTLED,
    (AllocationPhase.BINDING, Ended): AllocationPhase.RELEASED,
    (AllocationPhase.UNSETTLED, OutcomeUnknown): AllocationPhase.UNSETTLED,
    (AllocationPhase.UNSETTLED, Bound): AllocationPhase.BOUND,
    (AllocationPhase.UNSETTLED, BindingRefused): AllocationPhase.RELEASED,
    (AllocationPhase.UNSETTLED, Ended): AllocationPhase.RELEASED,
    (AllocationPhase.BOUND, Sent): AllocationPhase.BOUND,
    (AllocationPhase.BOUND, Bound): AllocationPhase.BOUND,
    (AllocationPhase.BOUND, BindingRefused): AllocationPhase.BOUND,
    (AllocationPhase.BOUND, OutcomeUnknown): AllocationPhase.BOUND,
    (AllocationPhase.BOUND, Ended): AllocationPhase.RELEASED,
}

advance: Final = StateMachine[AllocationPhase, Event](LEGAL).advance
