"""Names of Tessera's own annotations, labels and kinds."""

from __future__ import annotations

from typing import Final

GROUP: Final = "tessera.dev"
CARDS_PREFIX: Final = "cards.tessera.dev/"
"""`cards.tessera.dev/<vendor>` on a Node: the durable inventory, written by that vendor's agent."""
QUOTA_KIND: Final = "AcceleratorQuota"
