"""The variables that the device plugin gives a container.

`ALIYUN_COM_GPU_MEM_CONTAINER` and `ALIYUN_COM_GPU_MEM_DEV` are what programs compute their part of
a card from on nodes without Aliyun's isolation. Source: gpushare-device-plugin, `allocate.go`.
"""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import Container, Injection, Placed, card_list
from tessera_core.dialects.aliyun.names import (
    BY_CARD,
    BY_CONTAINER,
    BY_POD,
    INDEX,
    AliyunOptions,
)

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_NO_ISOLATION: Final = {"CGPU_DISABLE": "true"}


def inject(placed: Placed, container: Container, options: AliyunOptions) -> Injection:
    """The container's cards by minor number, and its units of memory next to the pod's and a
    card's."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    cards = [placed.cards[s.card] for s in shares]
    by_pod = sum(s.memory_bytes for s in placed.shares) // options.unit_bytes
    by_container = sum(s.memory_bytes for s in shares) // options.unit_bytes
    return Injection(
        env={
            _VISIBLE: card_list(shares),
            INDEX: ",".join(str(c.device_minor) for c in cards),
            BY_POD: str(by_pod),
            BY_CONTAINER: str(by_container),
            BY_CARD: str(cards[0].memory_bytes // options.unit_bytes),
            **(_NO_ISOLATION if options.disable_isolation else {}),
        }
    )
