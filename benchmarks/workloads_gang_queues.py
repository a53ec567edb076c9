"""The queues of a workload, as Volcano's Queues describe them, and what each is entitled to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.workloads_gang_mixes import GangWorkload
from tessera_core.dialect_kit.contract import Dimension
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queue_turns import entitlements
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension, QueueSpec

IN_CARDS: Final = QueueDimension("nvidia", Dimension.CARDS.value)


def specs_of(workload: GangWorkload, cards: int) -> list[QueueSpec]:
    """A queue for each team, which deserves its part of the cards and may borrow all others."""
    return [
        QueueSpec(origin=VOLCANO_QUEUE, name=name, deserved={IN_CARDS: round(part * cards)})
        for name, part in workload.queues.items()
    ]


def tree_of(workload: GangWorkload, cards: int) -> QueueTree:
    """The same as a tree."""
    return QueueTree(specs_of(workload, cards))


def entitled(tree: QueueTree, cards: int, wanted: Mapping[str, float]) -> dict[str, float]:
    """Queue's name -> cards that `divide` gives it of all, where queues want so many."""
    asked = {name: {IN_CARDS: float(amount)} for name, amount in wanted.items()}
    found = entitlements(tree, {IN_CARDS: float(cards)}, asked)
    return {name: amounts.get(IN_CARDS, 0.0) for name, amounts in found.items()}
