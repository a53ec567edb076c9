"""What the sixth act was seen to do decides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_demo.acts.reclaim import Reclaimed, reclaim_promises

GOOD = Reclaimed(lent=2, left=1, owner_runs=True, waited_s=3, reasons=("one left",))


def holds(found: Reclaimed) -> bool:
    (promise,) = reclaim_promises(found)
    return promise.kept


def test_one_of_two_gives_way_by_a_plan() -> None:
    (promise,) = reclaim_promises(GOOD)
    assert promise.kept
    assert promise.measured == "2 of its pods ran, 1 after 3.0 s; one left"


@pytest.mark.parametrize(
    "other", [{"lent": 1}, {"left": 2}, {"left": 0}, {"owner_runs": False}, {"reasons": ()}]
)
def test_anything_else_is_reported(other: dict[str, object]) -> None:
    assert not holds(replace(GOOD, **other))
