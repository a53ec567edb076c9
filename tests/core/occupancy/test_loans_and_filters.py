"""Who lends to which pod, which rows are wanted, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.occupancy.lending import with_loans
from tessera_core.occupancy.rows import CardRow, MeasuredShare, NodeRow, ShareRow
from tessera_core.occupancy.selection import (
    BadRowFilter,
    RowOrder,
    ordered,
    parse_filter,
    selected,
)
from tessera_testing.builders import a_card


def share(
    name: str, cores: float = 0, *, used: float | None = None, limit: float = 0,
    namespace: str = "ml", dialect: str = "hami", memory: int = 0,
) -> ShareRow:  # fmt: skip
    measured = None
    if used is not None:
        measured = MeasuredShare(cores_percent=used, limit_percent=limit)
    return ShareRow(
        namespace=namespace, name=name, uid=name, node="n", card="c", index=0, dialects=(dialect,),
        memory_bytes=memory, cores_percent=cores, slots=1, exclusive=False, measured=measured,
    )  # fmt: skip


def test_a_loan_comes_from_the_owner_that_is_idle() -> None:
    borrower, owner, busy = with_loans(
        [
            share("borrower", 40, used=70, limit=70), share("owner", 40, used=5, limit=40),
            share("busy", 20, used=20, limit=20),
        ],
        100,
    )  # fmt: skip
    assert (borrower.borrows_percent, borrower.partners) == (30, ("ml/owner",))
    assert (owner.lends_percent, owner.partners) == (30, ("ml/borrower",))
    assert (busy.borrows_percent, busy.lends_percent, busy.partners) == (0, 0, ())


def test_cores_that_nobody_was_granted_are_lent_first() -> None:
    borrower, owner = with_loans(
        [share("borrower", 20, used=50, limit=50), share("owner", 40, used=0, limit=40)], 100
    )
    assert (borrower.borrows_percent, borrower.partners) == (30, ())
    assert owner.lends_percent == 0


def test_without_limits_or_measurements_nothing_is_lent() -> None:
    shares = [share("a", 40), share("b", 0, used=90), share("c", 40, used=40, limit=20)]
    assert with_loans(shares, 100) == tuple(shares)


amounts = st.floats(0, 100)


@given(st.lists(st.tuples(amounts, amounts, amounts), max_size=6))
def test_no_more_is_lent_than_is_borrowed_and_idle(parts: list[tuple[float, ...]]) -> None:
    shares = [
        share(f"p{i}", cores, used=used, limit=limit)
        for i, (cores, used, limit) in enumerate(parts)
    ]
    found = with_loans(shares, 100)
    lent = sum(each.lends_percent for each in found)
    assert lent <= sum(each.borrows_percent for each in found) + 0.1 * len(found)
    for each in found:
        assert not (each.borrows_percent and each.lends_percent)
        assert each.lends_percent <= each.cores_percent + 0.1
        assert each.pod not in each.partners


def node(name: str, *shares: ShareRow, used: float = 0, memory: int = 0) -> NodeRow:
    card = CardRow(
        node=name, card=a_card(f"{name}-0", mib=1000), shares=shares, used_percent=used,
        memory_bytes=memory,
    )  # fmt: skip
    empty = CardRow(node=name, card=a_card(f"{name}-1", 1, mib=1000))
    return NodeRow(name=name, cards=(card, empty))


NODES = [
    node("gpu-a", share("train-0", namespace="ml"), used=10, memory=1),
    node("gpu-b", share("web", namespace="shop", dialect="koordinator"), used=80, memory=3),
    node("cpu-c", used=40, memory=2),
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["gpu-a", "gpu-b", "cpu-c"]),
        ("ns=ml", ["gpu-a"]),
        ("ns=ml,shop", ["gpu-a", "gpu-b"]),
        ("ns=m*", ["gpu-a"]),
        ("namespace=shop dialect=hami", []),
        ("dialect=koordinator", ["gpu-b"]),
        ("node=gpu-*", ["gpu-a", "gpu-b"]),
        ("node=gpu-* ns=shop", ["gpu-b"]),
        ("train", ["gpu-a"]),
        ("cpu", ["cpu-c"]),
        ("gpu ns=shop", ["gpu-b"]),
    ],
)
def test_a_filter_keeps_what_it_names(text: str, names: list[str]) -> None:
    assert [row.name for row in selected(NODES, parse_filter(text))] == names


def test_of_a_node_only_the_cards_stay_that_wanted_pods_hold() -> None:
    [row] = selected(NODES, parse_filter("ns=ml"))
    assert [card.card.index for card in row.cards] == [0]
    [row] = selected(NODES, parse_filter("cpu"))
    assert [card.card.index for card in row.cards] == [0, 1]


@pytest.mark.parametrize("text", ["foo=1", "ns=", "node=,"])
def test_a_filter_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRowFilter, match=f"{text}: write "):
        parse_filter(text)


def test_orders_put_first_what_they_say() -> None:
    def first(by: RowOrder) -> list[str]:
        return [row.name for row in ordered(NODES, by)]

    assert first(RowOrder.NAME) == ["gpu-a", "gpu-b", "cpu-c"]
    assert first(RowOrder.USED) == ["gpu-b", "cpu-c", "gpu-a"]
    assert first(RowOrder.MEMORY) == ["gpu-b", "cpu-c", "gpu-a"]
    assert first(RowOrder.CORES) == ["cpu-c", "gpu-a", "gpu-b"]
