"""Iluvatar's cards.

The vendor's own plugin (gpu-manager, or the device plugin of today) reads the pod's result
annotations and gives the container its cards, its driver files and its limits. Nothing is given
here, and our hook is not preloaded: the image brings its own copy of the driver library, which
the vendor's tools replace.
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
    name="iluvatar", own_plugin_allocates=True, give=_give,
    device_evidence=DeviceEvidence(
        variables=("ILUVATAR_COREX_VISIBLE_DEVICES",), device="/dev/iluvatar"
    ),
    foreign=dict.fromkeys(
        ("iluvatar.com/gpu", "iluvatar.ai/gpu"), "Iluvatar's device plugin of whole cards"
    ),
)  # fmt: skip


def _cards(readings: Readings, _slots: int) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """What the vendor's plugin says, slots included."""
    return readings.counted, ()


MONITORING: Final = MonitoringSpec(
    vendor="iluvatar",
    cards=_cards,
    counted=True,
    minimums=(
        MinimumVersion(of="driver", name="the Iluvatar driver", version="3.1.0", above=True),
    ),
)
