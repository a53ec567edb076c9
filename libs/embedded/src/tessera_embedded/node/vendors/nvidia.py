"""NVIDIA's container toolkit: one variable names the cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.vendors.nvidia import NONE_VISIBLE, VISIBLE
from tessera_embedded.node.toolkits import Asked, Toolkit

_NOTHING: Final = ("", NONE_VISIBLE, "none")


def _cards(asked: Asked) -> Sequence[str]:
    value = asked.env.get(VISIBLE, "")
    return () if value in _NOTHING else value.split(",")


TOOLKIT: Final = Toolkit(vendor="nvidia", cards=_cards)
