"""What somebody should look at: told once as a log line and an event on the pod, counted always.

A pod that stays wrong is told again only after a while; the number of pods remembered is bounded,
so that ten thousand forged pods cost ten thousand counts and no memory to speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_runtime import logs

REMEMBERED: Final = 10_000
AGAIN_S: Final = 600.0
"""Seconds until the same is told of the same pod again."""

_log = logs.named("tessera.scheduler.alarms")


class AlertReason(StrEnum):
    """What is wrong with a pod; the reason of its event, in Kubernetes' spelling."""

    FORGED = "ForgedGrant"
    """It bears a grant that our scheduler did not make for it. It counts nothing."""
    CHANGED = "GrantChanged"
    """It bears another grant than it was given. The one it was given counts, and is restored."""
    REMOVED = "GrantRemoved"
    """It has lost its grant, which counts, and is restored."""
    UNREADABLE = "GrantUnreadable"
    """Its grant is of another release: its node takes no more pods."""
    UNGRANTED = "CardsWithoutGrant"
    """It was bound by somebody else, and asks for cards. It is given none."""
    NOT_STARTED = "StartsTooLong"
    """It is bound to a node where a device plugin allocates, and equal pods wait for it to start,
    or did."""
    TAKEN_OVER = "GrantTakenOver"
    """It was placed by another system and could be read only in part."""


class Alert(Struct, frozen=True, kw_only=True):
    """One pod, and what is wrong with it."""

    wrong: AlertReason
    namespace: str
    name: str
    uid: str
    node: str
    text: str


class Alerts:
    """Tells, and keeps quiet about what was told."""

    def __init__(
        self,
        now: Callable[[], float],
        count: Callable[[AlertReason], None],
        tell: Callable[[Alert], None],
    ) -> None:
        """`count` is called for each, `tell` (an event on the pod) for those that are new."""
        self._now = now
        self._count = count
        self._tell = tell
        self._told: dict[tuple[str, AlertReason], float] = {}

    def forget(self) -> None:
        """Tell everything anew: who told it so far tells no more."""
        self._told.clear()

    def raise_(self, alarm: Alert) -> None:
        """Count it, and tell it unless that was done lately."""
        self._count(alarm.wrong)
        key, now = (alarm.uid, alarm.wrong), self._now()
        last = self._told.get(key)
        if last is not None and now - last < AGAIN_S:
            return
        self._told.pop(key, None)
        self._told[key] = now
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        _log.warning(
            str(alarm.wrong), pod=f"{alarm.namespace}/{alarm.name}", uid=alarm.uid,
            node=alarm.node, told=alarm.text,
        )  # fmt: skip
        self._tell(alarm)
