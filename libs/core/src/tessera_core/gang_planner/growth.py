"""Members beyond a gang's minimum, in the order in which a scheduler starts them: once no other
gang waits for its own minimum whose turn comes no later (`tessera_core.gang_scheduling.surplus`).

What a plan cannot know is left out of turns: how long a gang has waited, how often it missed, and
what its queue has used in the past.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import inf

from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.fair_shares import QueueShare, share_of
from tessera_core.gangs.gang import GangMembers, GangOrigin
from tessera_core.gangs.queue_turns import counted_totals
from tessera_core.gangs.queue_usage import ClusterQueues, QueueOfKind
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.gangs.quorum import still_needed
from tessera_core.preemption.victim_units import gang_priority
from tessera_schema.kube import Pod

Bundle = Sequence[GangMembers]


class GangGrowth:
    """Who waits until others have their minimum, and who of these is next."""

    def __init__(
        self,
        catalog: GangCatalog,
        queues: ClusterQueues,
        totals: QueueAmounts,
        deserved: Mapping[QueueOfKind, QueueAmounts],
    ) -> None:
        """`queues` with what is used of them by then; `deserved` is what those deserve that do not
        say it."""
        self._catalog = catalog
        self._queues = queues
        self._totals = totals
        self._deserved = deserved
        self._held: dict[str, tuple[Pod, Bundle]] = {}

    def holds_back(self, bundle: Bundle, planned: Container[str]) -> bool:
        """Whether a gang goes before the members of this bundle beyond the minimum. `planned` are
        the ids of those that are answered already: room for them was searched."""
        own = self._turn(bundle, surplus=True)
        mine = {members.gang.id for members in bundle}
        for gang_id, members in self._catalog.gangs.items():
            if gang_id in planned or gang_id in mine or not members.waiting:
                continue
            if still_needed(members)[0]:
                together = self._catalog.bundle(members.gang)
                others = [each for each in together if not isinstance(each, str)]
                if self._turn(others, surplus=False) <= own:
                    return True
        return False

    def hold(self, pod: Pod, bundle: Bundle) -> None:
        """The pod waits for its turn."""
        self._held[pod.metadata.uid] = pod, bundle

    def holds(self, uid: str) -> bool:
        """Whether the pod does."""
        return uid in self._held

    def take_next(self) -> Pod | None:
        """The pod whose turn it is, which waits no more; None where no pod waits."""
        if not self._held:
            return None
        pod, _ = min(self._held.values(), key=self._order)
        del self._held[pod.metadata.uid]
        return pod

    def _order(self, held: tuple[Pod, Bundle]) -> tuple[object, ...]:
        pod, bundle = held
        members = (member for each in bundle for member in each.waiting)
        own = next(member for member in members if member.pod is pod)
        return (*self._turn(bundle, surplus=True), own.order)

    def _turn(self, bundle: Bundle, *, surplus: bool) -> tuple[object, ...]:
        priority, share = self._queue(bundle)
        said = (each.gang.patience_s for each in bundle if each.gang.origin is GangOrigin.VOLCANO)
        return (
            -priority, share, -max(map(gang_priority, bundle)), surplus,
            min((each for each in said if each is not None), default=inf),
            min(map(_created, bundle)), min(members.gang.id for members in bundle),
        )  # fmt: skip

    def _queue(self, bundle: Bundle) -> tuple[int, QueueShare]:
        """Priority and share of the bundle's queue as it is used now; 0 for one of no queue."""
        places = (self._queues.of_gang(members.gang) for members in bundle)
        place = next((each for each in places if each and self._queues.known(each[0])), None)
        tree = None if place is None else self._queues.tree(place[0])
        spec = None if place is None or tree is None else tree.queues.get(place[1])
        if place is None or tree is None or spec is None:
            return 0, QueueShare(0.0, 0.0)
        deserved = self._deserved.get(place, spec.deserved)
        totals = counted_totals(tree.queues.values(), self._totals)
        share, _ = share_of(self._queues.used(*place), deserved, totals, spec.weight)
        return spec.priority, share


def _created(members: GangMembers) -> str:
    stamps = (member.pod.metadata.creation_timestamp or "" for member in members.waiting)
    return members.gang.created or min(stamps, default="")
