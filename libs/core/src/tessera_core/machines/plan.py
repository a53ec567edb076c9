"""What becomes of a plan.

    PROPOSED --Approved--> STARTED --Finished--> DONE
        |                    |  |
     Refuted           Refuted  Broken
        v                    |  v
    DECLINED <---------------+  FAILED

A plan that has started and has done nothing yet may still be declined: what it stood on has changed
between two looks. Once a step was done it ends as DONE or FAILED. Nothing leads back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.machines.state_machine import StateMachine
from tessera_schema.plans import PlanPhase


class Approved(Struct, frozen=True, tag=True):
    """A person, or the policy, wants it."""


class Refuted(Struct, frozen=True, tag=True):
    """A person does not want it, or what it stood on is no longer so; nothing was done."""


class Finished(Struct, frozen=True, tag=True):
    """All that there was to do was done."""


class Broken(Struct, frozen=True, tag=True):
    """A step could not be done."""


Event = Approved | Refuted | Finished | Broken

LEGAL: Final[Mapping[tuple[PlanPhase, type[Event]], PlanPhase]] = {
    (PlanPhase.PROPOSED, Approved): PlanPhase.STARTED,
    (PlanPhase.PROPOSED, Refuted): PlanPhase.DECLINED,
    (PlanPhase.STARTED, Approved): PlanPhase.STARTED,
    (PlanPhase.STARTED, Refuted): PlanPhase.DECLINED,
    (PlanPhase.STARTED, Finished): PlanPhase.DONE,
    (PlanPhase.STARTED, Broken): PlanPhase.FAILED,
}
OVER: Final = frozenset({PlanPhase.DONE, PlanPhase.DECLINED, PlanPhase.FAILED})
"""Phases that nothing leaves."""

advance: Final = StateMachine[PlanPhase, Event](LEGAL).advance
