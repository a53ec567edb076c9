"""The hardware of the dialect `acme`: cards that Acme's own plugin publishes on nodes, and that its
runtime shows by one variable. This is the file `tessera_core/vendors/acme.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit import (
    Card,
    Injection,
    MinimumVersion,
    MonitoringSpec,
    Readings,
    Share,
    Vendor,
    card_list,
)

VISIBLE: Final = "ACME_VISIBLE_DEVICES"


def _give(shares: Sequence[Share], _cards: Mapping[str, Card]) -> Injection:
    return Injection(env={VISIBLE: card_list(shares) if shares else "none"})


def _cards(readings: Readings, _slots: int) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    return readings.counted, ()


VENDOR: Final = Vendor(name="acme", give=_give, deny={VISIBLE: "none"}, agent_env={VISIBLE: "all"})
MONITORING: Final = MonitoringSpec(
    vendor="acme", cards=_cards, counted=True,
    minimums=(MinimumVersion(of="driver", name="the Acme driver", version="2.0"),),
)  # fmt: skip
