"""Which queue a gang is in, what pods use of it, and whether a gang may start there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import copy as copy_of

from tessera_core.dialect_kit.contract import Dimension
from tessera_core.gangs.catalog import queue_named
from tessera_core.gangs.gang import Gang, GangOrigin
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queue_turns import QueueTurn, counted_totals, entitlements, turns
from tessera_core.gangs.queues import (
    KOORDINATOR_QUOTA,
    PLAIN_QUOTA,
    VOLCANO_QUEUE,
    QueueAmounts,
    QueueDimension,
    QueueOrigin,
    QueueSpec,
)
from tessera_core.kube.pod_requests import pod_requests
from tessera_core.kube.quantity import BadQuantity
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.allowance import Uses
from tessera_schema.kube import Pod

QueueOfKind = tuple[QueueOrigin, str]
"""A queue: its kind and name."""
_VOLCANO_FIELDS = ("annotations", "spec.queue")


def amounts_of(pod: Pod, uses: Uses) -> dict[QueueDimension, float]:
    """What a pod counts in queues: its resources by their names, and what it has of cards.
    Amounts that cannot be read count for nothing, as on nodes."""
    try:
        named = pod_requests(pod)
    except BadQuantity:
        named = {}
    total: dict[QueueDimension, float] = {
        QueueDimension("", name): float(amount) for name, amount in named.items()
    }
    for (vendor, _), use in uses.items():
        for what, amount in (
            (Dimension.CARDS, use.cards),
            (Dimension.MEMORY, use.memory_bytes),
            (Dimension.CORES, use.cores_percent),
        ):
            key = QueueDimension(vendor, what.value)
            total[key] = total.get(key, 0) + amount
    return total


def sum_of(amounts: Iterable[QueueAmounts]) -> dict[QueueDimension, float]:
    """All of them together."""
    total: defaultdict[QueueDimension, float] = defaultdict(float)
    for each in amounts:
        for dimension, amount in each.items():
            total[dimension] += amount
    return dict(total)


def by_queue(
    pods: Iterable[Pod],
    origin: QueueOrigin,
    queue_of: Callable[[Pod], QueueOfKind | None],
    ledger: Ledger,
) -> dict[str, QueueAmounts]:
    """Name of a queue of this kind -> what these pods have of it."""
    found: dict[str, list[QueueAmounts]] = {}
    for pod in pods:
        queue = queue_of(pod)
        if queue is not None and queue[0] == origin:
            found.setdefault(queue[1], []).append(amounts_in(ledger, pod))
    return {name: sum_of(each) for name, each in found.items()}


def amounts_in(ledger: Ledger, pod: Pod) -> QueueAmounts:
    """What a bound pod counts in queues."""
    entry = ledger.entry(pod.metadata.uid)
    return amounts_of(pod, {} if entry is None else entry.uses)


class ClusterQueues:
    """All queues of a cluster, of every kind, and what is used of them."""

    def __init__(self, queues: Iterable[QueueSpec]) -> None:
        """Nothing is used yet."""
        by_origin: defaultdict[QueueOrigin, list[QueueSpec]] = defaultdict(list)
        for queue in queues:
            by_origin[queue.origin].append(queue)
        self._trees = {origin: QueueTree(found) for origin, found in by_origin.items()}
        self._used: dict[tuple[QueueOrigin, str], dict[QueueDimension, float]] = {}

    def copy(self) -> ClusterQueues:
        """The same queues, with what is used of them now."""
        made = copy_of(self)
        made._used = {place: dict(used) for place, used in self._used.items()}
        return made

    def weighed(
        self, factors: Callable[[QueueOrigin, QueueTree], Mapping[str, float]]
    ) -> ClusterQueues:
        """The same queues, of whose weights `factors` leaves so much, by name; what is used goes on
        in both."""
        made = copy_of(self)
        made._trees = {
            origin: tree.weighed(factors(origin, tree)) for origin, tree in self._trees.items()
        }
        return made

    def of_gang(self, gang: Gang) -> tuple[QueueOrigin, str] | None:
        """The queue that the gang is in; None for a gang of no queue."""
        if gang.queue:
            volcano = any(field in gang.queue_field for field in _VOLCANO_FIELDS)
            return (VOLCANO_QUEUE if volcano else self._elastic()), gang.queue
        if gang.origin is GangOrigin.VOLCANO:
            return VOLCANO_QUEUE, "default"
        return self.of_namespace(gang.namespace)

    def of_pod(self, pod: Pod) -> tuple[QueueOrigin, str] | None:
        """The queue that a pod of no gang is in; None for none."""
        name, field = queue_named(pod)
        if name:
            return (VOLCANO_QUEUE if "annotations" in field else self._elastic()), name
        return self.of_namespace(pod.metadata.namespace or "default")

    def tree(self, origin: QueueOrigin) -> QueueTree:
        """The queues of a kind; none where none is known."""
        return self._trees.get(origin) or QueueTree(())

    def known(self, origin: QueueOrigin) -> bool:
        """Whether any queue of the kind is there: where none is, nobody showed them."""
        return origin in self._trees

    def problem(self, origin: QueueOrigin, name: str) -> str:
        """Why nothing starts in the queue, whatever is free; empty where pods may."""
        return self._trees[origin].problem(name) if self.known(origin) else ""

    def use(self, origin: QueueOrigin, name: str, amounts: QueueAmounts) -> None:
        """Pods of the queue use so much more."""
        used = self._used.setdefault((origin, name), {})
        for dimension, amount in amounts.items():
            used[dimension] = used.get(dimension, 0) + amount

    def used(self, origin: QueueOrigin, name: str, *, below: bool = False) -> QueueAmounts:
        """What pods of the queue use; with `below`, those of the queues under it too."""
        if not below:
            return self._used.get((origin, name), {})
        return sum_of(self.used(origin, each) for each in self._trees[origin].below(name))

    def over(
        self,
        origin: QueueOrigin,
        name: str,
        asked: QueueAmounts,
        *,
        freed: Mapping[str, QueueAmounts] | None = None,
        idle: bool = False,
    ) -> str:
        """Which cap the gang would exceed, in numbers, once others of the tree have left what is
        `freed`, by the queues that they are in; with `idle`, if nobody used anything. Empty when
        none."""
        if not self.known(origin):
            return ""
        tree, left = self._trees[origin], freed or {}

        def used(queue: str) -> QueueAmounts:
            have = {} if idle else self.used(origin, queue, below=True)
            gone = sum_of(left[each] for each in tree.below(queue) & left.keys()) if left else {}
            return {dim: amount - gone.get(dim, 0) for dim, amount in have.items()}

        return tree.over(name, used, asked)

    def exceeded(self, origin: QueueOrigin, name: str, asked: QueueAmounts) -> str:
        """Which cap, of what is asked for, is exceeded by what is used; empty when none."""
        if not self.known(origin):
            return ""
        for queue in self._trees[origin].path(name):
            for dimension, amount in self.used(origin, queue.name, below=True).items():
                if asked.get(dimension) and amount > queue.cap.get(dimension, amount):
                    most = queue.cap[dimension]
                    return f"{queue.where} allows {most:g} {dimension}, {amount:g} would be used"
        return ""

    def turns(
        self, origin: QueueOrigin, totals: QueueAmounts, waiting: Mapping[str, QueueAmounts]
    ) -> tuple[QueueTurn, ...]:
        """The queues of the kind that wait for so much, the next one first."""
        if not self.known(origin):
            return ()
        used = {name: dict(sums) for (kind, name), sums in self._used.items() if kind == origin}
        return turns(self._trees[origin], totals, used, waiting)

    def deserved(
        self, totals: QueueAmounts, waiting: Mapping[QueueOrigin, Mapping[str, QueueAmounts]]
    ) -> dict[QueueOfKind, QueueAmounts]:
        """What queues deserve of trees in which none says it: their parts by weight, of what is
        used and what waits, by kind and queue."""
        found: dict[QueueOfKind, QueueAmounts] = {}
        for origin, tree in self._trees.items():
            if any(queue.deserved for queue in tree.queues.values()):
                continue
            waits = waiting.get(origin, {})
            wanted = {
                name: sum_of((self.used(origin, name), waits.get(name, {}))) for name in tree.queues
            }
            parts = entitlements(tree, counted_totals(tree.queues.values(), totals), wanted)
            found |= {(origin, name): part for name, part in parts.items()}
        return found

    def _elastic(self) -> QueueOrigin:
        return KOORDINATOR_QUOTA if self.known(KOORDINATOR_QUOTA) else PLAIN_QUOTA

    def of_namespace(self, namespace: str) -> tuple[QueueOrigin, str] | None:
        """An ElasticQuota of the namespace: the one that is named like it, else the first."""
        for origin in (KOORDINATOR_QUOTA, PLAIN_QUOTA):
            if self.known(origin):
                queues: Mapping[str, QueueSpec] = self._trees[origin].queues
                own = sorted(q.name for q in queues.values() if q.namespace == namespace)
                if own:
                    alike = (name for name in own if name.rpartition("/")[2] == namespace)
                    return origin, next(alike, own[0])
        return None
