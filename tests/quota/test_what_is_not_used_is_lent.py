"""Guaranteed amounts: lent while they are not used, had back when their owner asks."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.quota.accounting import QuotaAccounting
from tessera_core.quota.allowance import QuotaUsage
from tessera_core.quota.borrowing import BorrowingPools
from tessera_schema.quotas import Guaranteed, Limit

KEY = ("acme", "A1")


def a_group(
    name: str, cards: int | None, hard: int | None = None, *, lends: bool = True, **more: object
) -> Limit:
    limit = Limit(
        namespace=name, source="q", cards=hard, guaranteed=Guaranteed(cards=cards),
        pool="default", lends=lends,
    )  # fmt: skip
    return msgspec.structs.replace(limit, **more)


def cards(count: int) -> dict[tuple[str, str], QuotaUsage]:
    return {KEY: QuotaUsage(cards=count, parts=count)}


def a_book(*limits: Limit, **used: int) -> QuotaAccounting:
    book = QuotaAccounting()
    book.set_limits(limits)
    for namespace, count in used.items():
        book.count(namespace, cards(count))
    return book


def most(book: QuotaAccounting, namespace: str, limit: int = 100) -> int:
    """How many cards more the namespace may have."""
    allowance = book.allowance(namespace)
    return next((n for n in range(limit) if allowance.exceeded(cards(n + 1))), limit)


def test_what_others_are_guaranteed_and_do_not_use_may_be_borrowed() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2))
    assert (most(book, "a"), most(book, "b")) == (6, 6)
    book.count("a", cards(5))
    assert (most(book, "a"), most(book, "b")) == (1, 2)


def test_the_hard_limit_holds_for_what_is_borrowed() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2, hard=3))
    assert most(book, "b") == 3


def test_who_does_not_lend_keeps_what_is_its_own() -> None:
    book = a_book(a_group("a", 4, lends=False), a_group("b", 2))
    assert (most(book, "a"), most(book, "b")) == (6, 2)


def test_pools_do_not_lend_to_each_other() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2, pool="other"))
    assert (most(book, "a"), most(book, "b")) == (4, 2)


def test_nothing_is_borrowed_of_what_nobody_is_guaranteed() -> None:
    book = a_book(a_group("a", 4), a_group("b", None))
    assert most(book, "a") == 4
    assert most(book, "b") == 100


def test_an_owner_always_has_what_it_is_guaranteed() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2), b=6)
    assert most(book, "a") == 4


def test_new_pods_of_a_borrower_wait_once_the_owner_requests() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2), b=3)
    assert most(book, "b") == 3
    assert book.set_pending("pod", "a", cards(2))
    assert most(book, "b") == 1
    assert not book.set_pending("pod", "a", cards(2))
    assert book.drop_pending("pod")
    assert most(book, "b") == 3


def test_a_borrower_that_holds_what_is_requested_back_is_over_its_quota() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2), b=6)
    assert book.allowance("b").over() == ""
    book.set_pending("pod", "a", cards(1))
    assert book.allowance("b").over() == (
        "q (2 cards guaranteed, 3 lent by others) allows 5 cards, 6 are used"
    )
    assert book.allowance("a").over() == ""


def test_a_pod_that_requests_more_than_is_guaranteed_requests_nothing_back() -> None:
    book = a_book(a_group("a", 4), a_group("b", 2), b=6)
    assert not book.set_pending("pod", "a", cards(5))
    assert book.allowance("b").over() == ""


def test_a_group_of_namespaces_shares_its_guarantee() -> None:
    group = a_group("home", 4, namespaces=("a", "b"))
    book = a_book(group, a_group("c", 2), a=3)
    assert (most(book, "a"), most(book, "b")) == (3, 3)
    assert (most(book, "c"), most(book, "home")) == (3, 100)
    book.count("b", cards(2))
    assert most(book, "c") == 2


def test_the_hard_limit_of_a_group_counts_all_its_namespaces() -> None:
    group = Limit(namespace="home", source="q", cards=3, namespaces=("a", "b"))
    book = a_book(group, a=2)
    assert (most(book, "a"), most(book, "b")) == (1, 1)


def test_memory_and_cores_are_lent_like_cards() -> None:
    own = Guaranteed(memory_bytes=1 << 30, cores_percent=33.3)
    groups = [Limit(namespace=n, source="q", guaranteed=own, pool="p") for n in ("a", "b")]
    book = a_book(*groups)
    assert not book.allowance("a").exceeded({KEY: QuotaUsage(2 << 30, 66_600, 1, 1)})
    assert book.allowance("a").exceeded({KEY: QuotaUsage((2 << 30) + 1, 0, 1, 1)})
    assert book.allowance("a").exceeded({KEY: QuotaUsage(0, 66_700, 1, 1)})


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.sampled_from(["hold", "ask", "end"])),
    max_size=40,
)


@given(steps, st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_whatever_happens_no_more_is_placed_than_is_guaranteed_together(
    what: list[tuple[str, int, str]], own: list[int]
) -> None:
    book = a_book(*(a_group(n, c) for n, c in zip("abc", own, strict=True)))
    held: dict[str, list[int]] = {n: [] for n in "abc"}
    for number, (namespace, count, step) in enumerate(what):
        if step == "end":
            if held[namespace]:
                book.count(namespace, cards(held[namespace].pop()), -1)
        elif step == "ask":
            book.set_pending(f"p{number}", namespace, cards(count))
        elif not book.allowance(namespace).exceeded(cards(count)):
            used = sum(held[namespace])
            borrows = used + count > own["abc".index(namespace)]
            book.count(namespace, cards(count))
            held[namespace].append(count)
            if borrows:
                assert sum(map(sum, held.values())) <= sum(own)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9))))
def test_what_is_stored_up_to_date_is_what_one_would_count_again(
    puts: list[tuple[str, int, int]],
) -> None:
    groups = {n: a_group(n, 4) for n in "abc"}
    kept, last = BorrowingPools(groups.values()), dict[str, tuple[int, int]]()
    for name, used, asked in puts:
        kept.put(groups[name], {"cards": used}, {"cards": asked})
        last[name] = used, asked
    fresh = BorrowingPools(groups.values())
    for name, (used, asked) in last.items():
        fresh.put(groups[name], {"cards": used}, {"cards": asked})
    for group in groups.values():
        assert kept.effective_limit(group) == fresh.effective_limit(group)


def test_without_a_guarantee_nothing_is_lent_or_requested_back() -> None:
    book = a_book(Limit(namespace="a", source="q", cards=1))
    assert not book.set_pending("pod", "a", cards(1))
    assert most(book, "a") == 1


def test_limits_use_and_requests_may_come_in_any_order() -> None:
    limits = [a_group("a", 4), a_group("b", 2)]
    book = QuotaAccounting()
    book.set_pending("pod", "a", cards(2))
    book.count("b", cards(3))
    assert most(book, "b") == 100
    book.set_limits(limits)
    assert most(book, "b") == 1
    book.set_limits([])
    book.drop_pending("pod")
    book.set_limits(limits)
    assert most(book, "b") == 3
