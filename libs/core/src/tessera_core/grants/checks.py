"""What a share may say."""

from __future__ import annotations

from tessera_schema.cards import MOST_CORES_PERCENT, MOST_MEMORY_BYTES
from tessera_schema.grants import Share


def credible(share: Share) -> bool:
    """False for amounts that no card has and that would overflow the ledger."""
    return (
        0 <= share.memory_bytes <= MOST_MEMORY_BYTES
        and 0 <= share.cores_percent <= MOST_CORES_PERCENT
        and 0 <= share.on_card_bytes <= share.memory_bytes
    )
