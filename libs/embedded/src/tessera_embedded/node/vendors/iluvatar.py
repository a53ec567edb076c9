"""Iluvatar's gpu-manager: it allocates the cards whose numbers the scheduler wrote on the pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialects.iluvatar.results import ASSIGNED, CARD_NUMBERS
from tessera_embedded.node.toolkits import Asked, Toolkit


def _cards(asked: Asked) -> Sequence[str]:
    numbers = asked.pod.metadata.annotations.get(f"{CARD_NUMBERS}{asked.position}", "")
    return numbers.split(",") if numbers else ()


TOOLKIT: Final = Toolkit(vendor="iluvatar", cards=_cards, settles={ASSIGNED: "true"})
