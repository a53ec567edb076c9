"""The variables that KAI's binder gives a container with a fraction, through a ConfigMap there.

`RUNAI_NUM_OF_GPUS` is the older name of `GPU_PORTION`; both have two places after the point.
"""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import Container, Injection, InvalidField, Placed, card_list
from tessera_core.dialects.kai.amounts import container_requests
from tessera_core.dialects.kai.names import KaiOptions

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"


def inject(options: KaiOptions, placed: Placed, container: Container) -> Injection:
    """The container's cards, and its portion of a card. Whole cards come with no variable of
    KAI's."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    env = {_VISIBLE: card_list(shares)}
    if not shares[0].exclusive:
        portion = f"{_portion(options, placed, container):.2f}"
        env |= {"GPU_PORTION": portion, "RUNAI_NUM_OF_GPUS": portion}
    return Injection(env=env)


def _portion(options: KaiOptions, placed: Placed, container: Container) -> float:
    """The fraction as it is written; of MiB, what they are of the card."""
    share = placed.of(container.name)[0]
    try:
        found = container_requests(placed.pod, options)
    except InvalidField:
        found = ()
    written = next((a.fraction for a in found if a.container.name == container.name), 0.0)
    total = placed.cards[share.card].memory_bytes
    return written or (share.memory_bytes / total if total else 0.0)
