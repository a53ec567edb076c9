"""Owners whose pods ran longer than they said: their next pods do not pass a gang that waits, even
if they say that they end in time. Else the gang would wait for one late pod after another.

It is remembered in memory alone. A scheduler that takes over learns it of pods that are still late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tessera_core.kube.owner_references import owner_of
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_core.shadows.shadow import MARGIN
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

REMEMBERED_S: Final = 86_400.0
"""Seconds after which an owner is believed again."""
MOST: Final = 10_000
"""Owners that are remembered, those that were late last."""
_PODS_OF_A_SLICE: Final = 1024


def _most_s(lasts_s: float) -> float:
    return lasts_s * (1 + MARGIN)


class OverdueOwners:
    """Who was late, and when."""

    def __init__(self) -> None:
        """Nobody was."""
        self._late: dict[str, float] = {}
        """Owner -> when a pod of it was late last; the longest ago comes first."""

    def observe(self, running: Iterable[PodLifetime], now: float) -> Slices[None]:
        """Remember those whose pods should have ended, with a margin."""
        for number, pod in enumerate(running):
            if not number % _PODS_OF_A_SLICE:
                yield
            if pod.owner and pod.lasts_s is not None and pod.since + _most_s(pod.lasts_s) < now:
                self._late.pop(pod.owner, None)
                self._late[pod.owner] = now
        for owner in [*self._late][: max(len(self._late) - MOST, 0)]:
            del self._late[owner]

    def any_of(self, pods: Iterable[Pod], now: float) -> bool:
        """Whether a pod's owner was late lately."""
        ago = now - REMEMBERED_S
        return any(self._late.get(owner_of(pod.metadata), ago) > ago for pod in pods)

    def forget(self) -> None:
        """Nobody was late."""
        self._late = {}
