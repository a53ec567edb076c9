"""What the queues of a tree are entitled to, and in which order those that wait are served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tessera_core.dialect_kit.contract import Dimension
from tessera_core.fleet.fleet import Fleet
from tessera_core.gangs.fair_shares import QueueClaim, QueueShare, divide, share_of
from tessera_core.gangs.queue_tree import MOST_LEVELS, QueueTree
from tessera_core.gangs.queues import QueueAmounts, QueueDimension, QueueSpec
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_schema.kube import Node


class QueueTurn(Struct, frozen=True):
    """A queue that waits."""

    queue: QueueSpec
    share: QueueShare
    by: QueueDimension | None
    """The dimension that decides its share; None for a queue within what it deserves."""
    used: QueueAmounts
    entitled: QueueAmounts
    """What it would have if everybody took its part."""


def cluster_totals(fleet: Fleet, nodes: Iterable[Node]) -> dict[QueueDimension, float]:
    """All that the cluster has, by dimension. Amounts of nodes that cannot be read are left out."""
    total: defaultdict[QueueDimension, float] = defaultdict(float)
    for cards in fleet.facts:
        for card in cards:
            total[QueueDimension(card.vendor, Dimension.CARDS.value)] += 1
            total[QueueDimension(card.vendor, Dimension.MEMORY.value)] += card.memory_bytes
            total[QueueDimension(card.vendor, Dimension.CORES.value)] += card.cores_percent
    for node in nodes:
        for name, quantity in (node.status.allocatable or node.status.capacity).items():
            try:
                amount = quantity_milli(quantity) if name == "cpu" else quantity_value(quantity)
            except BadQuantity:
                continue
            total[QueueDimension("", name)] += amount
    return dict(total)


def counted_totals(
    queues: Iterable[QueueSpec], totals: QueueAmounts
) -> dict[QueueDimension, float]:
    """The dimensions by which the shares of a tree's queues are measured: those of which any of
    them says what it deserves; all of cards, and what caps name, where none says anything."""
    queues = tuple(queues)
    deserved = {dim for queue in queues for dim in queue.deserved}
    if deserved:
        return {dim: total for dim, total in totals.items() if dim in deserved}
    capped = {dim for queue in queues for dim in queue.cap}
    return {dim: total for dim, total in totals.items() if dim.vendor or dim in capped}


def entitlements(
    tree: QueueTree, totals: QueueAmounts, requests: Mapping[str, QueueAmounts]
) -> dict[str, dict[QueueDimension, float]]:
    """Queue's name -> what it is entitled to, in each dimension of `totals`. `requests` are what
    the pods of each queue use and wait for; children divide what their parent got. Queues in a
    circle get nothing."""
    found: dict[str, dict[QueueDimension, float]] = {name: {} for name in tree.queues}
    children = _children(tree)
    asked = demands(tree, requests)
    for dimension, total in totals.items():

        def wanted(queue: QueueSpec, dim: QueueDimension = dimension) -> float:
            own = asked.get(queue.name, {}).get(dim, 0)
            return min(own, queue.cap.get(dim, own))

        level = [("", float(total))]
        for _ in range(MOST_LEVELS):
            level = [
                entry
                for parent, amount in level
                for entry in _divided(children.get(parent, ()), amount, dimension, wanted)
            ]
            for name, amount in level:
                found[name][dimension] = amount
    return found


def demands(
    tree: QueueTree, requests: Mapping[str, QueueAmounts]
) -> dict[str, dict[QueueDimension, float]]:
    """Queue's name -> what it asks its parent for: what its own pods use and wait for
    (`requests`), and what the queues below it ask for, each up to its cap; its guarantee at least.
    Queues in a circle, and those below one that does not exist, are left out."""
    found: dict[str, dict[QueueDimension, float]] = {}
    children = _children(tree)

    def add(queue: QueueSpec, level: int) -> None:
        below = children[queue.name] if level < MOST_LEVELS else []
        total = dict(requests.get(queue.name, {}))
        for child in below:
            add(child, level + 1)
            for dim, amount in found[child.name].items():
                total[dim] = total.get(dim, 0) + min(amount, child.cap.get(dim, amount))
        least = queue.guarantee
        found[queue.name] = {
            dim: max(total.get(dim, 0), least.get(dim, 0)) for dim in {**total, **least}
        }

    for queue in children[""]:
        add(queue, 1)
    return found


def _children(tree: QueueTree) -> defaultdict[str, list[QueueSpec]]:
    children: defaultdict[str, list[QueueSpec]] = defaultdict(list)
    for queue in tree.queues.values():
        children[queue.parent].append(queue)
    return children


def _divided(
    queues: Sequence[QueueSpec],
    total: float,
    dimension: QueueDimension,
    wanted: Callable[[QueueSpec], float],
) -> list[tuple[str, float]]:
    """The part of each of these queues, which have one parent."""
    claims = [
        QueueClaim(
            name=queue.name, request=wanted(queue),
            guarantee=queue.guarantee.get(dimension, 0),
            deserved=queue.deserved.get(dimension, 0), cap=queue.cap.get(dimension),
            weight=queue.weights.get(dimension, queue.weight),
            created="" if queue.namespace else queue.created,
        )
        for queue in queues
    ]  # fmt: skip
    whole = dimension.what != Dimension.CORES.value
    return [(name, float(part)) for name, part in divide(total, claims, whole=whole).items()]


def turns(
    tree: QueueTree,
    totals: QueueAmounts,
    used: Mapping[str, QueueAmounts],
    waiting: Mapping[str, QueueAmounts],
) -> tuple[QueueTurn, ...]:
    """The queues that wait, the next one first: by priority, then by share, older, name. In a tree
    in which no queue says what it deserves, each deserves its part by weight. What queues of a
    circle, and those that take no pods, wait for is left out."""
    names = {*used, *waiting}
    requests = {name: _sum(used.get(name, {}), waiting.get(name, {})) for name in names}
    counted = counted_totals(tree.queues.values(), totals)
    entitled = entitlements(tree, counted, requests)
    by_weight = not any(queue.deserved for queue in tree.queues.values())
    found = []
    for name in waiting:
        if name in tree.queues and not tree.problem(name):
            queue = tree.queues[name]
            deserved = entitled[name] if by_weight else queue.deserved
            share, by = share_of(used.get(name, {}), deserved, counted, queue.weight)
            found.append(QueueTurn(queue, share, by, used.get(name, {}), entitled[name]))
    return tuple(
        sorted(
            found,
            key=lambda t: (-t.queue.priority, t.share, t.queue.created, t.queue.name),
        )
    )


def _sum(one: QueueAmounts, other: QueueAmounts) -> dict[QueueDimension, float]:
    return {dim: one.get(dim, 0) + other.get(dim, 0) for dim in {**one, **other}}
