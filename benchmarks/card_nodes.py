"""Nodes of eight cards, made in memory for benchmarks of one part of the core."""

from __future__ import annotations

from typing import Final

from tessera_core.ledger.ledger import Ledger
from tessera_schema.cards import MIB, Card

VENDOR: Final = "acme"
CARDS: Final = 8
CARD_MIB: Final = 81920


def put_nodes(ledger: Ledger, nodes: int, vendor: str = VENDOR) -> None:
    """Nodes `n0` and on, with cards `c<node>-<index>`."""
    for n in range(nodes):
        ledger.put_node(
            f"n{n}",
            [
                Card(id=f"c{n}-{i}", index=i, vendor=vendor, memory_bytes=CARD_MIB * MIB, slots=10)
                for i in range(CARDS)
            ],
        )
