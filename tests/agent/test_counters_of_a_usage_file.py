"""The few counters of a usage file that lending needs are read where the hook writes them."""

import pytest

from tessera_core.hook.records import CARDS
from tessera_core.hook.usage_counters import NOTHING, SIZE, is_of, read_counters, record_at
from tests.agent.usagefile import a_usage


def test_counters_are_what_a_hook_writes() -> None:
    card = {"gpu_ns": 5, "throttled_ns": 6, "launches": 7, "raw_ns": 8, "last_launch_ns": 9}
    data = bytes(a_usage({"uuid": b"GPU-1"}, {"uuid": b"GPU-2", **card}))
    record = data[record_at(1) : record_at(1) + SIZE]
    assert is_of(record, "2")
    assert not is_of(record, "1")
    assert not is_of(record[:-1], "2")
    assert read_counters(record) == (5, 6, 7)
    assert NOTHING == (0, 0, 0)


@pytest.mark.parametrize("position", [-1, CARDS])
def test_there_are_no_other_records(position: int) -> None:
    with pytest.raises(ValueError, match="there are 16"):
        record_at(position)
