"""Mthreads' cards.

The vendor's toolkit reads `mthreads.com/gpu-index` and its companions from the pod and gives the
container its card, its driver files and its limits. Nothing is given here, and our hook is not
preloaded: the cards do not speak CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit import (
    Card,
    DeviceEvidence,
    Injection,
    MinimumVersion,
    MonitoringSpec,
    Readings,
    Share,
    Vendor,
)


def _give(_shares: Sequence[Share], _cards: Mapping[str, Card]) -> Injection:
    return Injection()


VENDOR: Final = Vendor(
    name="mthreads", own_plugin_allocates=True, give=_give,
    device_evidence=DeviceEvidence(variables=("MTHREADS_VISIBLE_DEVICES",)),
    foreign={"mthreads.com/gpu": "Moore Threads' device plugin of whole cards"},
)  # fmt: skip
"""Its toolkit learns its cards from that variable. Which device node is which card is not known
here."""


def _cards(readings: Readings, _slots: int) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """What the vendor's plugin says, slots included."""
    return readings.counted, ()


MONITORING: Final = MonitoringSpec(
    vendor="mthreads",
    cards=_cards,
    counted=True,
    minimums=(
        MinimumVersion(of="driver", name="the Mthreads driver", version="1.2.0"),
        MinimumVersion(of="toolkit", name="MT CloudNative Toolkit", version="1.9.0", above=True),
    ),
)
