"""What the scheduler writes on a pod, for the device plugins of both releases.

The extender writes the card's number and sums of the pod, ACK's scheduler what each container has
of each card. A pod on one card gets both, so that either device plugin finds its own; a pod on
several cards has no number that the extender could write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tessera_core.dialect_kit import Placed, Share
from tessera_core.dialects.aliyun.names import (
    ACK_GIVEN,
    ACK_TIME,
    ALLOCATION,
    BY_CARD,
    BY_POD,
    CORE_ALLOCATION,
    GIVEN,
    INDEX,
    TIME,
    AliyunOptions,
)

NOT_YET: Final = "false"
"""Until the device plugin has given the cards: it then writes `true`."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def annotate(placed: Placed, options: AliyunOptions) -> dict[str, str]:
    """Both releases' keys. An init container has no number in `spec.containers`: its share is in no
    key, as neither release gives it a card."""
    inits = len(placed.pod.spec.init_containers)
    shares = tuple(s for s in placed.shares if s.position >= inits)
    if not shares:
        return {}
    now = str(placed.now_ns)
    written = {
        ALLOCATION: _by_container(placed, shares, lambda s: s.memory_bytes // options.unit_bytes),
        ACK_GIVEN: NOT_YET,
        ACK_TIME: now,
    }
    if any(s.cores_percent for s in shares):
        written[CORE_ALLOCATION] = _by_container(placed, shares, lambda s: int(s.cores_percent))
    if len({s.card for s in shares}) > 1:
        return written
    card = placed.cards[shares[0].card]
    return {
        INDEX: str(card.device_minor),
        BY_CARD: str(card.memory_bytes // options.unit_bytes),
        BY_POD: str(sum(s.memory_bytes for s in shares) // options.unit_bytes),
        GIVEN: NOT_YET,
        TIME: now,
        **written,
    }


def _by_container(
    placed: Placed, shares: Iterable[Share], amount_of: Callable[[Share], int]
) -> str:
    inits = len(placed.pod.spec.init_containers)
    found: dict[str, dict[str, int]] = {}
    for share in shares:
        minor = str(placed.cards[share.card].device_minor)
        found.setdefault(str(share.position - inits), {})[minor] = amount_of(share)
    return _encode(found).decode()
