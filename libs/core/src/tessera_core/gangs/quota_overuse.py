"""What a quota gives up that uses more than it is allowed, by Koordinator's rule.

Nothing calls it: in a cluster cards are taken back for somebody who waits for them, and for nobody
else (`tessera_core.gangs.queue_lending`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tessera_core.gangs.queues import QueueAmounts


class OverusingPod(Struct, frozen=True):
    """A pod of such a quota."""

    name: str
    amounts: QueueAmounts


def revoked(allowed: QueueAmounts, pods: Sequence[OverusingPod]) -> tuple[OverusingPod, ...]:
    """What a quota has to give up so that it uses no more than it is allowed. `pods` come by
    priority, the highest first: they go from the lowest until the rest fits; then those come back,
    from the highest, that still fit."""
    stays = list(pods)
    while stays and not _fits(stays, allowed):
        stays.pop()
    gone = list(pods[len(stays) :])
    for pod in tuple(gone):
        if _fits([*stays, pod], allowed):
            stays.append(pod)
            gone.remove(pod)
    return tuple(gone)


def _fits(pods: Sequence[OverusingPod], allowed: QueueAmounts) -> bool:
    return all(
        sum(pod.amounts.get(dimension, 0) for pod in pods) <= most
        for dimension, most in allowed.items()
    )
