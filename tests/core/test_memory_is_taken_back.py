"""Which best-effort containers end while an owner waits for memory of their card."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.node.memory_reclaim import (
    BestEffortMemory,
    CardReclaimer,
    EndRequest,
    OwnerMemory,
    ReclaimDecision,
    ReclaimRules,
)

GIB = 1 << 30
CARD_GIB = 80
SECOND = 1_000_000_000
WALL_NS = 1_700_000_000 * SECOND
RULES = ReclaimRules(grace_s=1, settle_s=0.2)


def an_owner(wants: int = 0, *, name: str = "owner", limit: int = 40, failed: int = 0,
             ago_s: float = 0) -> OwnerMemory:  # fmt: skip
    at_ns = WALL_NS - round(ago_s * SECOND) if wants else 0
    return OwnerMemory(
        key=name, limit_bytes=limit * GIB, wanted_bytes=wants * GIB, wanted_at_ns=at_ns,
        failed=failed,
    )  # fmt: skip


def rest(name: str, since_s: float, gib: int = 10) -> BestEffortMemory:
    return BestEffortMemory(key=name, since_s=since_s, charged_bytes=gib * GIB)


class Card:
    """A card whose containers a test names."""

    def __init__(self) -> None:
        self._reclaimer = CardReclaimer(RULES)

    def at(
        self, now_s: float, owners: Sequence[OwnerMemory], *others: BestEffortMemory
    ) -> ReclaimDecision:
        return self._reclaimer.decide(owners, others, now_s, WALL_NS)


def requested(*names: str) -> tuple[EndRequest, ...]:
    return tuple(EndRequest(name, by_force=False) for name in names)


def test_everybody_ends_for_who_was_granted_the_card_whole() -> None:
    card, alone = Card(), replace(an_owner(), alone=True)
    both = (rest("a", 1), rest("b", 2))
    assert card.at(0, [alone], *both).ends == requested("a", "b")
    assert card.at(0.5, [alone], *both).ends == ()
    late = card.at(1, [alone], *both)
    assert late.ends == (EndRequest("a", by_force=True), EndRequest("b", by_force=True))
    assert not late.short


def test_nobody_ends_while_no_owner_waits() -> None:
    decision = Card().at(0, [an_owner()], rest("a", 1))
    assert decision == ReclaimDecision()
    assert not decision.short


def test_the_youngest_ends_and_no_more_than_needed() -> None:
    card = Card()
    decision = card.at(0, [an_owner(15)], rest("old", 1), rest("young", 3), rest("middle", 2))
    assert decision.ends == requested("young", "middle")
    assert (decision.began, decision.short, decision.wanted_bytes) == (True, True, 15 * GIB)


def test_one_that_has_to_end_is_counted_on_until_its_grace_is_over() -> None:
    card, owner = Card(), [an_owner(5)]
    assert card.at(0, owner, rest("a", 1), rest("b", 2)).ends == requested("b")
    assert card.at(0.9, owner, rest("a", 1), rest("b", 2)).ends == ()
    assert card.at(1, owner, rest("a", 1), rest("b", 2)).ends == (EndRequest("b", by_force=True),)
    assert card.at(1.5, owner, rest("a", 1), rest("b", 2)).ends == ()


def test_another_ends_only_if_the_owner_still_waits_a_moment_later() -> None:
    card, owner = Card(), [an_owner(5)]
    card.at(0, owner, rest("a", 1), rest("b", 2))
    assert card.at(0.3, owner, rest("a", 1)).ends == ()
    assert card.at(0.6, owner, rest("a", 1)).ends == requested("a")


def test_those_that_say_nothing_of_their_memory_end_last() -> None:
    card, owner = Card(), [an_owner(5)]
    others = rest("a", 1), rest("silent", 2, gib=0), rest("also", 3, gib=0)
    assert card.at(0, owner, *others).ends == requested("a")
    assert card.at(0.1, owner, *others[1:]).ends == ()
    assert card.at(0.4, owner, *others[1:]).ends == requested("also")
    assert card.at(0.5, owner, *others[1:]).ends == ()


def test_nobody_is_ended_by_force_for_an_owner_that_waits_no_more() -> None:
    card = Card()
    card.at(0, [an_owner(5)], rest("a", 1))
    assert card.at(2, [an_owner()], rest("a", 1)).ends == ()
    assert card.at(2.1, [an_owner(5)], rest("a", 1)).ends == requested("a")


def test_a_mark_of_one_that_was_killed_counts_no_more() -> None:
    assert Card().at(0, [an_owner(5, ago_s=1.1)], rest("a", 1)) == ReclaimDecision()


def test_an_owner_has_no_more_freed_than_its_limit() -> None:
    decision = Card().at(0, [an_owner(1000, limit=5)], rest("a", 1), rest("b", 2))
    assert decision.ends == requested("b")
    assert decision.wanted_bytes == 5 * GIB


def test_allocations_that_failed_count_from_the_first_check_on() -> None:
    card = Card()
    assert card.at(0, [an_owner(failed=7)], rest("a", 1)).failed == 0
    decision = card.at(1, [an_owner(failed=9)], rest("a", 1))
    assert (decision.failed, decision.short, decision.ends) == (2, True, ())
    assert card.at(2, [an_owner(failed=1)], rest("a", 1)).failed == 0  # another usage file


def test_a_wait_that_goes_on_counts_once() -> None:
    card = Card()
    began = [card.at(i / 10, [an_owner(5)], rest("a", 1)).began for i in range(5)]
    assert began == [True, False, False, False, False]


@given(
    granted=st.integers(1, 80), part=st.floats(0, 1),
    others=st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=10),
)  # fmt: skip
def test_an_owner_has_all_that_it_was_granted_within_five_seconds(
    granted: int, part: float, others: list[tuple[int, bool]]
) -> None:
    """However much is lent of the card, and whichever pods end by force alone."""
    used = int(granted * part)
    present: dict[str, tuple[BestEffortMemory, bool]] = {}
    for n, (gib, stubborn) in enumerate(others):
        if used + gib + sum(one.charged_bytes for one, _ in present.values()) // GIB <= CARD_GIB:
            present[str(n)] = rest(str(n), n, gib), stubborn
    card, owner = Card(), an_owner(granted - used, limit=granted)
    for tick in range(50):
        left = CARD_GIB * GIB - sum(one.charged_bytes for one, _ in present.values())
        if left >= granted * GIB:
            return
        for end in card.at(tick / 10, [owner], *(one for one, _ in present.values())).ends:
            if end.by_force or not present[end.key][1]:
                del present[end.key]
    raise AssertionError(f"the owner waits still for memory that {sorted(present)} have")


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 40))
def test_what_ends_suffices_where_it_can_and_would_not_with_one_less(
    sizes: list[int], wants: int
) -> None:
    others = [rest(str(n), n, gib=size) for n, size in enumerate(sizes)]
    ends = [int(end.key) for end in Card().at(0, [an_owner(wants)], *others).ends]
    freed = [sizes[n] for n in ends]
    assert ends == sorted(range(len(sizes)), reverse=True)[: len(ends)]
    assert sum(freed) >= wants or len(ends) == len(sizes)
    assert sum(freed[:-1]) < wants
