"""Names that only a hint mentions are not kept without end."""

import asyncio
from datetime import UTC, datetime

import pytest

from tessera_core.ledger.ledger import Ledger
from tessera_runtime.bus.api import Message
from tessera_runtime.clock import SystemClock
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.hints import MOST_BYTES, MOST_NODES, HintCache, HintSettings
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import HINT_PUBLISHED
from tessera_schema.messages.hints import CardHint, NodeHints, encode_hints

pytestmark = pytest.mark.looptime
NOW = 1_700_000_000.0
HOT = CardHint(card="GPU-0", busy_percent=100, contended_percent=90, confidence=1)


def a_hint(node: str, *, ago_s: float = 0, data: bytes | None = None) -> Message:
    time = datetime.fromtimestamp(NOW - ago_s, UTC).isoformat().replace("+00:00", "Z")
    return Message(
        subject=f"$KV.tessera-hints.{node}",
        envelope=Envelope(
            id=node,
            source="/tessera/rebalancer/r",
            type=HINT_PUBLISHED,
            time=time,
            epoch=1,
            sequence=1,
        ),
        data=encode_hints(NodeHints(node=node, at=NOW, cards=(HOT,))) if data is None else data,
    )


def a_cache(ledger: Ledger) -> HintCache:
    clock = MonotonicClock(SystemClock(), asyncio.get_running_loop())
    return HintCache(ledger, HintSettings(), clock, SchedulerMetrics(), lambda: None)


async def test_of_too_many_nodes_the_first_count_until_they_are_too_old() -> None:
    ledger = Ledger()
    hints, fleet = a_cache(ledger), ledger.fleet
    for number in range(MOST_NODES + 100):
        hints.receive(a_hint(f"n{number}"), NOW)
    assert len(fleet.pressed) == MOST_NODES
    hints.expire(NOW + 3600)
    assert not fleet.pressed
    hints.receive(a_hint("late"), NOW)
    assert set(fleet.pressed) == {"late"}


async def test_what_is_too_old_or_too_large_leaves_nothing_behind() -> None:
    ledger = Ledger()
    hints, fleet = a_cache(ledger), ledger.fleet
    for number in range(1000):
        hints.receive(a_hint(f"n{number}", ago_s=3600), NOW)
    large = NodeHints(node="large", at=NOW, cards=(HOT,) * (MOST_BYTES // 20))
    hints.receive(a_hint("large", data=encode_hints(large)), NOW)
    assert hints.remembered == 0
    assert not fleet.pressed
