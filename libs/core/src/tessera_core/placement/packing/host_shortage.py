"""Whether hosts run out of processor before the cards are in use.

Where they do, cards stay free on nodes whose processor is taken, and policy B packs more
(`tessera_core.placement.packing.whole_node_reserve`); elsewhere it loses a little.
"""

from __future__ import annotations

from typing import Final

from tessera_core.placement.packing.demand import CardKinds, Demand

SHORT: Final = 0.9
"""Hosts are short where more than this part of their processor is asked for by the time that all
cards are in use. Chosen on traces made up from openb: docs/packing.md, "Whole nodes in reserve"."""


def is_short(kinds: CardKinds, past: Demand, cpu_per_card: float) -> bool:
    """True where hosts are short of processor. `cpu_per_card` is asked by pods with cards."""
    return processor_demand(kinds, past, cpu_per_card) > SHORT


def processor_demand(kinds: CardKinds, past: Demand, cpu_per_card: float) -> float:
    """The part of the hosts' processor that is asked for once the cards that are free now are in
    use too, at `cpu_per_card` each; 0 where hosts are not known."""
    if kinds.nodes is None:
        return 0
    cards = (kinds.nodes.kind > 0).sum(1)
    counted = kinds.nodes.known & (cards > 0)
    there = float(kinds.nodes.cpu[counted].sum())
    free = max(0.0, float(cards[counted].sum()) - past.cards_in_use)
    return (past.held_cpu + cpu_per_card * free) / there if there else 0
