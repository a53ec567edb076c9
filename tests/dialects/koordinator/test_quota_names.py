"""Names in quotas are the names that pods carry after admission; nothing is translated."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Admitted, Dimension
from tests.dialects.koordinator.spoken import KOORDINATOR, NAMES, a_koord_pod


@pytest.mark.parametrize(
    ("short", "dimension"),
    [("gpu", "cores"), ("core", "cores"), ("mem", "memory"), ("sh", "cards")],
)
def test_each_name_limits_one_dimension(short: str, dimension: str) -> None:
    unit = KOORDINATOR.quota[NAMES[short]]
    assert unit.dimension is Dimension(dimension)
    assert unit.unit == 1


@pytest.mark.parametrize("_case", [pytest.param(0, id="P3")])
def test_whole_cards_are_not_translated_to_percent(_case: int) -> None:
    answer = KOORDINATOR.admit(a_koord_pod("nv=1"))
    assert isinstance(answer, Admitted)
    assert not answer.changes
    assert NAMES["nv"] not in KOORDINATOR.quota


@pytest.mark.parametrize("_case", [pytest.param(0, id="P4")])
def test_the_wrapper_counts_as_what_it_becomes(_case: int) -> None:
    answer = KOORDINATOR.admit(a_koord_pod("gpu=100"))
    assert isinstance(answer, Admitted)
    assert answer.changes["c0"].requests[NAMES["ratio"]] == "100"
