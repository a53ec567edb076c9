"""Gangs that start whole and found no room for all that have to start together, and since when."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gangs.gang import GangMember
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.pending_preemptors import PendingPreemptor


class PendingGangs:
    """Reads them from the line of gangs."""

    def __init__(self, gangs: GangScheduling, schedulers: Collection[str]) -> None:
        """Only gangs of which a member that waits names one of these schedulers count."""
        self._gangs = gangs
        self._schedulers = frozenset(schedulers)
        self._known: dict[str, PendingPreemptor] = {}

    def all(self, now: float) -> Iterator[PendingPreemptor]:
        """Those that wait for room; `now` is Unix time."""
        waiting = {
            known.bundle.key: (known, member)
            for known in self._gangs.coordinator.bundles()
            if _is_short(known) and (member := self._member(known)) is not None
        }
        self._known = {key: each for key, each in self._known.items() if key in waiting}
        for key, (known, member) in waiting.items():
            meta = member.pod.metadata
            first = PodKey(meta.namespace, meta.name, meta.uid)
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = PendingPreemptor(
                    key=first, priority=known.bundle.priority, since=now, gang=key
                )
            found.key, found.priority = first, known.bundle.priority
            yield found

    def _member(self, known: KnownBundle) -> GangMember | None:
        """A member that waits and asks for cards, for which the others are evicted."""
        places, schedulers = self._gangs.places, self._schedulers
        return next(
            (
                member for member in known.bundle.waiting
                if member.pod.spec.scheduler_name in schedulers
                and not member.pod.spec.node_name and places.requests_cards(member.pod)
            ),
            None,
        )  # fmt: skip


def why_over(registry: GangRegistry, gang: str) -> str:
    """Why nobody has to go for the gang of this id any more; empty while it waits."""
    bundle = registry.bundle(gang)
    if not bundle.populated:
        return "the gang that waited is gone"
    return "" if bundle.together and bundle.needed else "the gang that waited has started"


def _is_short(known: KnownBundle) -> bool:
    attempt, bundle = known.attempt, known.bundle
    return (
        attempt.phase in WAITING and attempt.searched_at >= 0 and not attempt.dissolving
        and bundle.requests_cards and bundle.together and not bundle.lacks
    )  # fmt: skip
