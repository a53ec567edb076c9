"""What the state machines have in common: a table of legal transitions, and the error for all
others."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

Phase = TypeVar("Phase", bound=StrEnum)
Event = TypeVar("Event")


class IllegalTransition(Exception):
    """An event that cannot happen in this phase: a bug, never the doing of a user, a driver or
    kubelet."""


class StateMachine(Generic[Phase, Event]):
    """Phases, events, and which phase an event leads to."""

    def __init__(self, legal: Mapping[tuple[Phase, type[Event]], Phase]) -> None:
        self._legal = legal

    def advance(self, phase: Phase, event: Event) -> Phase:
        """The next phase. Raises IllegalTransition."""
        try:
            return self._legal[phase, type(event)]
        except KeyError:
            raise IllegalTransition(f"{type(event).__name__} in phase {phase}") from None
