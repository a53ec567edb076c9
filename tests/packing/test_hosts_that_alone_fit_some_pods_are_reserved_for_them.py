"""Where few hosts can hold what some pods ask, others keep off them; where hosts are alike, or not
known, nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import Host
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.demand_history import DemandedShape, History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.scarce_hosts import SHAPES
from tessera_core.placement.packing.state import PackingState
from tessera_schema.requests import Request
from tessera_testing.builders import a_card
from tests.packing.fleets import GIB, a_pod, charge, place

SMALL, LARGE = Host(96000, 384 * GIB), Host(128000, 768 * GIB)
WHOLE = Request(vendor="acme", dialect="acme", memory_percent=100, exclusive=True)
EIGHT = Request(vendor="acme", dialect="acme", memory_percent=100, exclusive=True, count=8)


def a_cluster(**totals: Host | None) -> tuple[Fleet, HostCapacity]:
    fleet, book = Fleet(), HostCapacity()
    for name, total in totals.items():
        fleet.put(name, [a_card(f"card-{i}", i, mib=16000) for i in range(8)])
        book.node(name, total)
    return fleet, book


def learned(fleet: Fleet, book: HostCapacity, past: dict[DemandedShape, int]) -> PackingState:
    history, state = History(), PackingState()
    for (request, cpu, memory), count in past.items():
        for _ in range(count):
            history.add(a_pod(request, cpu_milli=int(cpu), memory_bytes=int(memory)), 0)
    history = History.decode(history.encode(0))
    state.adopt(learn(*state.lesson(fleet, history, 0, book.columns(fleet))))
    return state


def steps(
    fleet: Fleet, book: HostCapacity, state: PackingState, wish: DemandedShape
) -> dict[str, float]:
    host = Host(int(wish.cpu), int(wish.memory))
    hosts = book.columns(fleet)
    column = ordering.keys(fleet, wish.request, state, hosts=hosts, host=host)[0]
    return {name: float(column[row]) for name, row in fleet.rows.items()}


MODEST = DemandedShape(WHOLE, 8000, 32 * GIB)
GREEDY = DemandedShape(EIGHT, 120000, 700 * GIB)
PAST = {MODEST: 60, GREEDY: 3}


def test_a_pod_that_any_host_can_hold_keeps_off_the_few_that_others_need() -> None:
    fleet, book = a_cluster(a=SMALL, b=SMALL, c=SMALL, large=LARGE)
    found = steps(fleet, book, learned(fleet, book, PAST), MODEST)
    assert found["large"] > found["a"] == found["b"] == found["c"]


def test_the_pods_that_need_them_go_there() -> None:
    fleet, book = a_cluster(a=SMALL, large=LARGE)
    found = steps(fleet, book, learned(fleet, book, PAST), GREEDY)
    assert found["large"] < found["a"] == np.inf


@pytest.mark.parametrize("total", [SMALL, LARGE])
def test_where_hosts_are_alike_none_is_reserved(total: Host) -> None:
    """Either none of them, or all of them, can hold what the past asked for."""
    fleet, book = a_cluster(a=total, b=total)
    state = learned(fleet, book, PAST)
    assert len(state.forecast.confined.excess) == 0
    assert len(set(steps(fleet, book, state, MODEST).values())) == 1


def test_a_host_that_is_not_known_is_not_reserved_for_anybody() -> None:
    fleet, book = a_cluster(a=SMALL, b=None, large=LARGE)
    found = steps(fleet, book, learned(fleet, book, PAST), MODEST)
    assert found["large"] > found["a"] == found["b"]


def test_a_host_with_too_few_cards_is_not_reserved_for_pods_of_many() -> None:
    fleet, book = a_cluster(a=SMALL, b=SMALL, large=LARGE)
    fleet.put("few", [a_card(f"card-{i}", i, mib=16000) for i in range(4)])
    book.node("few", LARGE)
    state = learned(fleet, book, PAST)
    nodes = state.rows(None).nodes
    each = state.forecast.confined.per_card(nodes)
    assert each[fleet.rows["large"]].min() > 0
    assert each[fleet.rows["few"]].max() == 0


def test_the_shapes_examined_are_bounded() -> None:
    fleet, book = a_cluster(a=SMALL, large=LARGE)
    past = {DemandedShape(EIGHT, 97000 + 100 * n, GIB): 1 for n in range(SHAPES + 9)}
    assert len(learned(fleet, book, past).forecast.confined.excess) == SHAPES


hosts = st.sampled_from([SMALL, LARGE, None])
wishes = st.builds(
    DemandedShape,
    st.sampled_from([WHOLE, EIGHT, Request(vendor="acme", dialect="acme", memory_percent=30)]),
    st.sampled_from([0, 8000, 100000, 127900]),
    st.sampled_from([0, 32 * GIB, 500 * GIB]),
)
moves = st.one_of(
    st.tuples(st.just("place"), wishes),
    st.tuples(st.just("host"), st.tuples(st.integers(0, 3), hosts)),
    st.tuples(st.just("hold"), st.tuples(st.integers(0, 3), st.integers(0, 128000))),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(hosts, min_size=4, max_size=4), st.lists(moves, max_size=10), wishes)
def test_deltas_maintained_while_hosts_change_equal_deltas_computed_afresh(
    totals: list[Host | None], changes: list[tuple[str, Any]], wish: DemandedShape
) -> None:
    fleet, book = a_cluster(**{f"n{i}": total for i, total in enumerate(totals)})
    kept = learned(fleet, book, PAST)
    for number, (kind, what) in enumerate(changes):
        if kind == "host":
            book.node(f"n{what[0]}", what[1])
        elif kind == "hold":
            book.hold(f"u{number}", f"n{what[0]}", Host(what[1], GIB))
        else:
            answer = place(fleet, a_pod(what.request), kept)
            if answer is not None:
                charge(fleet, *answer)
        afresh = kept.apart()
        for state in (kept, afresh):
            state.follow(fleet, book.columns(fleet))
        assert np.array_equal(kept.steps(fleet, wish), afresh.steps(fleet, wish))
