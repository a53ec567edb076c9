"""What the rebalancer answers on NATS, where it is listed (`nats service ls`).

    nats request tessera.ask.<cluster>.rebalancer.info ''

Nothing depends on it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_rebalancer.rebalancer import Rebalancer

_MOST_NAMED: Final = 20
_CONTENDED: Final = 25.0
"""Percent of the time from which a card is named as contended."""


class RebalancerInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    problem: str
    """Why no hints are published; empty when they are."""
    nodes: int
    """Nodes that are measured."""
    contended: tuple[str, ...]
    """The most contended cards, as `node/card`; at most 20."""


def info(rebalancer: Rebalancer, instance: str) -> RebalancerInfo:
    """How the rebalancer is now."""
    published = rebalancer.publisher.published
    waits = sorted(
        (-card.contended_percent, f"{node}/{card.card}")
        for node, hints in published.items()
        for card in hints.cards
        if card.contended_percent >= _CONTENDED
    )
    return RebalancerInfo(
        instance=instance, problem=rebalancer.problem(), nodes=len(published),
        contended=tuple(name for _, name in waits[:_MOST_NAMED]),
    )  # fmt: skip
