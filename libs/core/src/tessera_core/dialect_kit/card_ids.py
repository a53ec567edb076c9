"""How cards are named where their own system publishes no identity, and listed in one variable."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_schema.grants import Share


def numbered_card_id(node: str, vendor: str, index: int) -> str:
    """The id of a card whose own identity nobody published: a node's capacity says only how many
    there are. The name is HAMi's."""
    return f"{node}-{vendor}-{index}"


def card_list(shares: Sequence[Share]) -> str:
    """The value of the variable by which a vendor's runtime shows cards: ids in order of selection,
    each once, joined by commas; the index of a card that has no id of its own, which runtimes
    understand too."""
    named = (
        str(s.index) if s.card.endswith(numbered_card_id("", s.vendor, s.index)) else s.card
        for s in shares
    )  # fmt: skip
    return ",".join(dict.fromkeys(named))
