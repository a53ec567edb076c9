"""What hints say of the memory that owners leave of a card."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tessera_core.usage.hints import HintBuilder, SignificantChanges, is_significant
from tessera_core.usage.lending_terms import GrantedShare, Holders
from tessera_core.usage.smoothed import SmoothCard, SmoothContainer, SmoothNode
from tessera_schema.messages.hints import (
    CardHint,
    MemoryNeed,
    NodeHints,
    decode_hints,
    encode_hints,
)

GIB = 1 << 30
AT = 1_700_000_000.0
HOUR_S = 3600.0


def holders(**gib: float) -> Holders:
    """Container `c` of each pod was granted so much of the card."""
    return {
        (uid, "c", "GPU-0"): GrantedShare(namespace="d", memory_bytes=round(amount * GIB))
        for uid, amount in gib.items()
    }


def a_node(at_s: float, uses: Mapping[str, float], *, reclaims: bool = True) -> SmoothNode:
    """The node so long after the start, with what pods use in GiB."""
    containers = tuple(
        SmoothContainer(
            key=(uid, "c", "GPU-0"), cores_percent=1,
            cores_peak_percent=1, cores_limit_percent=0, waiting_percent=0,
            memory_bytes=round(gib * GIB), memory_peak_bytes=0, confidence=1,
        )
        for uid, gib in uses.items()
    )  # fmt: skip
    card = SmoothCard(
        vendor="acme", card="GPU-0", busy_percent=1, crowded_percent=0, trend_percent=0,
        confidence=1, reclaims=reclaims, containers=containers,
    )  # fmt: skip
    return SmoothNode(node="n1", at=AT + at_s, cards=(card,))


def needs(hints: NodeHints) -> dict[str, float] | None:
    """GiB by owner."""
    [card] = hints.cards
    if card.needs is None:
        return None
    return {owner.uid: owner.memory_bytes / GIB for owner in card.needs}


def after(builder: HintBuilder, held: Holders, *moments: SmoothNode) -> NodeHints:
    """The hints at the last of these moments."""
    for moment in moments[:-1]:
        builder.build(moment, held)
    return builder.build(moments[-1], held)


def every(uses: Mapping[str, float], to_s: float, since_s: float = 0) -> list[SmoothNode]:
    """Measured every five minutes."""
    return [a_node(since_s + n * 300, uses) for n in range(int((to_s - since_s) / 300) + 1)]


def test_an_owner_counts_with_the_most_that_it_used_and_a_margin_after_an_hour() -> None:
    held = holders(a=40, b=40)
    builder = HintBuilder()
    assert needs(after(builder, held, *every({"a": 20}, 1800))) == {}
    moments = every({"a": 10, "b": 40}, HOUR_S, 1800)
    assert needs(after(builder, held, *moments)) == {"a": 24}
    assert needs(after(builder, held, *every({"a": 10, "b": 40}, 9 * HOUR_S, HOUR_S))) == {"a": 24}


def test_the_pods_of_a_card_have_one_margin_together() -> None:
    """They may grow by 3 and 4 GiB, and count with 5 in all."""
    held = holders(a=40, b=40)
    found = needs(after(HintBuilder(), held, *every({"a": 15, "b": 20}, HOUR_S)))
    assert found == pytest.approx({"a": 15 + 9 / 5, "b": 20 + 16 / 5})


@pytest.mark.parametrize("wrong", [{"best_effort": True}, {"memory_bytes": 0}, {"lends": False}])
def test_who_was_granted_nothing_or_lends_nothing_leaves_nothing(wrong: dict[str, int]) -> None:
    held = {key: replace(one, **wrong) for key, one in holders(a=40).items()}
    assert needs(after(HintBuilder(), held, *every({"a": 1}, 2 * HOUR_S))) == {}


def test_a_pod_that_memory_is_lent_to_leaves_some_after_ten_minutes() -> None:
    lent = {key: replace(one, best_effort=True, lent=True) for key, one in holders(a=40).items()}
    builder = HintBuilder()
    assert needs(after(builder, lent, *every({"a": 20}, 300))) == {}
    assert needs(builder.build(a_node(600, {"a": 20}), lent)) == {"a": 24}


def test_an_owner_that_was_not_measured_for_a_while_starts_again() -> None:
    builder, held = HintBuilder(), holders(a=40)
    assert needs(after(builder, held, *every({"a": 1}, 2 * HOUR_S))) == {"a": 2}
    assert needs(after(builder, held, a_node(2 * HOUR_S + 601, {"a": 1}))) == {}


def test_the_containers_of_a_pod_count_together() -> None:
    held = holders(a=40)
    held = {**held, ("a", "other", "GPU-0"): held["a", "c", "GPU-0"]}
    assert needs(after(HintBuilder(), held, *every({"a": 10}, HOUR_S))) == {"a": 12 + 40}


def test_nothing_is_said_of_a_card_whose_agent_takes_no_memory_back() -> None:
    builder, held = HintBuilder(), holders(a=40)
    after(builder, held, *every({"a": 1}, 2 * HOUR_S))
    assert needs(builder.build(a_node(2 * HOUR_S + 10, {"a": 1}, reclaims=False), held)) is None


def test_the_message_survives_the_wire_and_one_of_an_older_release_lends_nothing() -> None:
    hints = after(HintBuilder(), holders(a=40), *every({"a": 10}, HOUR_S))
    assert decode_hints(encode_hints(hints)) == hints
    old = decode_hints(b'{"node":"n1","at":1,"cards":[{"card":"GPU-0"}]}')
    assert old.cards[0].needs is None


def test_what_owners_leave_is_published_when_it_changes() -> None:
    steps = SignificantChanges()

    def differ(former: tuple[MemoryNeed, ...] | None, now: tuple[MemoryNeed, ...] | None) -> bool:
        before, after_ = (
            NodeHints(node="n1", at=AT, cards=(CardHint(card="GPU-0", needs=each),))
            for each in (former, now)
        )
        return is_significant(before, after_, steps)

    one = MemoryNeed(uid="a", memory_bytes=GIB)
    assert not differ(None, None)
    assert not differ((one,), (replace(one, memory_bytes=2 * GIB - 1),))
    assert differ((one,), (replace(one, memory_bytes=2 * GIB),))
    assert differ((one,), (replace(one, uid="b"),))
    assert differ((one,), ())
    assert differ((), None)
