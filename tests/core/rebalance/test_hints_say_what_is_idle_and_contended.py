"""What was measured, compared with what was granted."""

from msgspec.structs import replace

from tessera_core.usage.hints import HintBuilder, SignificantChanges, is_significant
from tessera_core.usage.lending_terms import Holders
from tessera_core.usage.smoother import Smoother
from tessera_schema.messages.hints import CardHint, NodeHints, decode_hints, encode_hints
from tests.core.rebalance.measured import AT, GIB, NODE, a_use, granted, key, measure


def reported(smoother: Smoother, holders: Holders, now: float) -> NodeHints:
    seen = smoother.node(NODE, now)
    assert seen is not None
    return HintBuilder().build(seen, holders)


def the_card(*uses: object, holders: Holders) -> CardHint:
    smoother = Smoother()
    now = measure(smoother, *uses)  # type: ignore[arg-type]  # (spelled short)
    return reported(smoother, holders, now).cards[0]


def test_idle_is_what_was_granted_and_is_not_used() -> None:
    card = the_card(
        a_use("a", 10, memory_bytes=2 * GIB), a_use("b", 40, memory_bytes=5 * GIB),
        holders=granted(a=50, b=30),
    )  # fmt: skip
    assert (card.busy_percent, card.idle_cores_percent) == (50, 40)
    assert card.idle_memory_bytes == 9 * GIB


def test_memory_that_was_needed_a_while_ago_is_not_idle() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 0, memory_bytes=7 * GIB))
    now = measure(smoother, a_use("a", 0, memory_bytes=GIB), since=now, for_s=60)
    assert reported(smoother, granted(a=50), now).cards[0].idle_memory_bytes < 1.3 * GIB


def test_a_container_that_nobody_was_granted_leaves_nothing_idle() -> None:
    card = the_card(a_use("stranger", 30), holders={})
    assert (card.busy_percent, card.idle_cores_percent, card.idle_memory_bytes) == (30, 0, 0)


def test_a_grant_whose_container_does_not_run_is_not_idle() -> None:
    card = the_card(a_use("a", 10), holders=granted(a=50, pending=40))
    assert card.idle_cores_percent == 40


def test_who_waits_for_gpu_time_makes_a_card_contended() -> None:
    card = the_card(
        a_use("a", 50, throttled_percent=60), a_use("b", 5), holders=granted(a=50, b=40)
    )
    assert card.contended_percent == 60


def test_what_best_effort_uses_and_waits_for_is_nothing_to_others() -> None:
    holders = granted(a=50, rest=0)
    holders |= {key("rest"): replace(holders[key("rest")], best_effort=True)}
    card = the_card(a_use("a", 20), a_use("rest", 75, throttled_percent=80), holders=holders)
    assert (card.busy_percent, card.contended_percent, card.idle_cores_percent) == (20, 0, 30)


def test_who_waits_because_its_cores_were_lowered_does_not() -> None:
    lowered = a_use("a", 25, throttled_percent=90, cores_limit_percent=25)
    assert the_card(lowered, holders=granted(a=50)).contended_percent == 0


def test_a_message_is_the_nodes_newest_and_survives_the_wire() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50))
    hints = reported(smoother, granted(a=50), now)
    assert (hints.node, hints.at) == (NODE, AT + now)
    assert decode_hints(encode_hints(hints)) == hints


def test_small_changes_are_no_event_and_large_ones_are() -> None:
    steps = SignificantChanges()
    card = CardHint(card="GPU-0", busy_percent=40, confidence=1, idle_memory_bytes=GIB)
    before = NodeHints(node=NODE, at=AT, cards=(card,))

    def differs(**changes: float) -> bool:
        return is_significant(
            before, replace(before, at=AT + 9, cards=(replace(card, **changes),)), steps
        )

    assert is_significant(None, before, steps)
    assert not differs()
    assert not differs(busy_percent=44.9, trend_percent=24, confidence=0.8)
    assert differs(busy_percent=45)
    assert differs(contended_percent=5)
    assert differs(idle_cores_percent=5)
    assert differs(idle_memory_bytes=2 * GIB)
    assert differs(trend_percent=-25)
    assert differs(confidence=0.5)
    assert is_significant(before, replace(before, cards=()), steps)
    assert is_significant(before, replace(before, cards=(card, card)), steps)
