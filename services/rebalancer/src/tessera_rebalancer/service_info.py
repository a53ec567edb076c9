"""The rebalancer among the services that NATS lists (`nats service ls`).

    nats request tessera.ask.<cluster>.rebalancer.info ''

Nothing depends on it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_rebalancer.rebalancer import Rebalancer

_MOST_SHOWN: Final = 20
_CONTENDED: Final = 25.0
"""Percent of the time from which a card is shown as contended."""


class RebalancerInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    problem: str
    """Why nothing is told; empty when it is."""
    nodes: int
    """Nodes that are measured."""
    contended: tuple[str, ...]
    """The cards where most is waited, as `node/card`; no more than 20."""


def info(rebalancer: Rebalancer, instance: str) -> RebalancerInfo:
    """How the rebalancer is now."""
    told = rebalancer.teller.told
    waits = sorted(
        (-card.contended_percent, f"{node}/{card.card}")
        for node, hints in told.items()
        for card in hints.cards
        if card.contended_percent >= _CONTENDED
    )
    return RebalancerInfo(
        instance=instance, problem=rebalancer.problem(), nodes=len(told),
        contended=tuple(name for _, name in waits[:_MOST_SHOWN]),
    )  # fmt: skip
