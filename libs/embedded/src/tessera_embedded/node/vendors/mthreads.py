"""Mthreads' toolkit: it knows one list of card numbers for the pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialects.mthreads.results import GPU_INDEX
from tessera_embedded.node.toolkits import Asked, Toolkit


def _cards(asked: Asked) -> Sequence[str]:
    numbers = asked.pod.metadata.annotations.get(GPU_INDEX, "")
    return numbers.split(",") if numbers else ()


TOOLKIT: Final = Toolkit(vendor="mthreads", cards=_cards)
