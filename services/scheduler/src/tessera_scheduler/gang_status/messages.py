"""The scheduler's messages about gangs and queues on the bus. Nothing waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from tessera_core.gang_scheduling.view import QueueKey, QueueView
from tessera_core.gang_status.queue_states import state_of
from tessera_core.gangs.gang import Gang, GangMembers
from tessera_runtime.bus.outbox import Outbox
from tessera_schema.messages.event_catalogue import GANG_CHANGED, QUEUE_STATE
from tessera_schema.messages.gang_events import (
    GangChange,
    GangChanged,
    encode_gang_event,
    gang_subject,
)
from tessera_schema.queue_states import QueueState

AGAIN_S: Final = 60.0
"""Seconds after which a queue's state is published again though nothing has changed."""
MESSAGE_MOST: Final = 1000
"""Characters of a message's text."""


class _Published(Struct, frozen=True):
    state: QueueState
    at: float


class GangMessages:
    """Publishes changes of gangs and states of queues."""

    def __init__(
        self, outbox: Outbox, cluster: str, queue_of: Callable[[Gang], QueueKey | None]
    ) -> None:
        """`cluster` is the third token of subjects."""
        self._outbox = outbox
        self._cluster = cluster
        self._queue_of = queue_of
        self._states: dict[QueueKey, _Published] = {}

    def forget(self) -> None:
        """This replica does not lead: once it does, it publishes the states of all queues."""
        self._states = {}

    def changed(self, what: GangChange, members: GangMembers, text: str) -> None:
        """Publish that a gang has changed."""
        gang, key = members.gang, self._queue_of(members.gang)
        bound = 0 if what is GangChange.ENDED else len(members.bound)
        exist = bound + len(members.waiting) + len(members.barred)
        event = GangChanged(
            what=what, gang=gang.id, namespace=gang.namespace, name=gang.name, min=gang.min,
            members=0 if what is GangChange.ENDED else exist, bound=bound,
            queue="" if key is None else key.name, message=text[:MESSAGE_MOST],
        )  # fmt: skip
        subject = gang_subject(self._cluster, event)
        self._outbox.publish(subject, GANG_CHANGED[what], encode_gang_event(event))

    def states(self, queues: Iterable[QueueView], now: float) -> None:
        """Publish the queues that have changed, and those that were not published for long."""
        found: dict[QueueKey, _Published] = {}
        for view in queues:
            state, before = state_of(view), self._states.get(view.key)
            if before is not None and before.state == state and now < before.at + AGAIN_S:
                found[view.key] = before
                continue
            found[view.key] = _Published(state, now)
            subject = gang_subject(self._cluster, state)
            self._outbox.publish(subject, QUEUE_STATE, encode_gang_event(state))
        self._states = found
