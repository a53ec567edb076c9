"""What the rebalancer said last bounds lending while it is fresh, however late it was read."""

import asyncio

import pytest

from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.bounds import LendingBounds
from tessera_schema.messages.hints import LendingBound, NodeHints
from tessera_testing.clock import LoopClock

pytestmark = pytest.mark.looptime

VALID_S = 90.0
KEY = ContainerKey("uid-1", "main")
BOUND = LendingBound(uid=KEY.uid, container=KEY.container, card="GPU-0", most_cores_percent=45)


class Reader:
    """An agent's view of bounds, on a clock of its own."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.bounds = LendingBounds(self.clock, valid_s=VALID_S)
        self._began = asyncio.get_running_loop().time()

    def receives(self, *, age_s: float = 0.0, bounds: tuple[LendingBound, ...] = (BOUND,)) -> None:
        """Of usage that is so old by the clock."""
        hints = NodeHints(node="worker-1", at=self.clock.time() - age_s, bounds=bounds)
        self.bounds.on_message(hints, self._began)

    def most(self, after_s: float) -> float | None:
        """So long after the agent began."""
        return self.bounds.most(KEY, "gpu-0", self._began + after_s)


async def test_bounds_that_are_not_renewed_are_forgotten() -> None:
    reader = Reader()
    assert reader.most(0) is None
    reader.receives()
    assert reader.most(VALID_S - 1) == 45
    assert reader.most(VALID_S + 1) is None


@pytest.mark.parametrize("age_s", [VALID_S + 1, 7200.0, 1e9])
async def test_a_last_value_that_is_old_bounds_nothing(age_s: float) -> None:
    reader = Reader()
    reader.receives(age_s=age_s)
    assert reader.most(0) is None
    reader.receives()
    assert reader.most(0) == 45


async def test_age_counts_from_the_usage_not_from_the_reading() -> None:
    reader = Reader()
    reader.receives(age_s=60)
    assert reader.most(29) == 45
    assert reader.most(31) is None


async def test_what_is_stamped_ahead_of_the_clock_counts_as_new() -> None:
    reader = Reader()
    reader.receives(age_s=-7200)
    assert reader.most(VALID_S - 1) == 45
    assert reader.most(VALID_S + 1) is None


async def test_a_clock_that_jumps_later_forgets_nothing() -> None:
    reader = Reader()
    reader.receives()
    reader.clock.jump(7200)
    assert reader.most(VALID_S - 1) == 45


async def test_a_newer_message_replaces_the_one_before() -> None:
    reader = Reader()
    reader.receives()
    reader.receives(bounds=())
    assert reader.most(0) is None
