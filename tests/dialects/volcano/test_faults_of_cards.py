"""Faults that a program causes leave its card alone; others take it at once."""

from __future__ import annotations

import pytest

from tessera_agent.devices.cards import CardHealthTracker
from tessera_agent.devices.settings import HealthSettings
from tessera_core.dialect_kit.readings import CardReading, Fault, Readings
from tessera_core.vendors.nvidia import MONITORING


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(31, [True, True], id="G14 31"),
        pytest.param(43, [True, True], id="G14 43"),
        pytest.param(45, [True, True], id="G14 45"),
        pytest.param(79, [True, False], id="G15"),
    ],
)
def test_a_fault_of_the_second_card_leaves_healthy(code: int, expected: list[bool]) -> None:
    """G15 upstream lists the card in gpu-unhealthy-ids; here the node's own annotation says so."""
    tracker = CardHealthTracker(MONITORING, HealthSettings(), slots=10)
    faults = ((), (Fault(code=code, what=f"XID {code}"),))
    cards = tuple(
        CardReading(id=f"GPU-{i}", index=i, memory_bytes=1 << 34, faults=of)
        for i, of in enumerate(faults)
    )
    seen = tracker.update(Readings(cards=cards, driver="570", session=1), 0)
    assert [card.healthy for card in seen.cards] == expected
