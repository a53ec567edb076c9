"""Several sizes and vendors in one cluster, slots, cards that are partly blocked, hosts."""

import numpy as np
import pytest
from msgspec.structs import replace

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import Host
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.catalogue import MOST_KINDS
from tessera_core.placement.packing.demand_history import DemandedShape, History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.free_capacity import HostColumns
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.packing.whole_node_reserve import WholeNodeReserve, whole_nodes
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.quota.allowance import NO_LIMITS
from tessera_schema.cards import Card
from tessera_schema.requests import Request
from tessera_testing.builders import a_card
from tests.packing.fleets import GIB, a_pod

WHOLE = Request(vendor="acme", dialect="acme", memory_percent=100, exclusive=True)


def a_share(percent: int, cores: int = 0) -> Request:
    return Request(vendor="acme", dialect="acme", memory_percent=percent, cores_percent=cores)


def fleet_of(**nodes: list[Card]) -> Fleet:
    fleet = Fleet()
    for name, cards in nodes.items():
        fleet.put(name, cards)
    return fleet


def cards(count: int, **facts: object) -> list[Card]:
    return [replace(a_card(f"card-{i}", i, mib=16000), **facts) for i in range(count)]


def learned(
    fleet: Fleet, past: dict[Request, int], hosts: HostColumns | None = None
) -> PackingState:
    history, state = History(), PackingState(reserve=False)
    for request, count in past.items():
        for _ in range(count):
            history.add(a_pod(request, cpu_milli=8000, memory_bytes=GIB), 0)
    state.adopt(learn(*state.lesson(fleet, history, 0, hosts)))
    return state


def best(fleet: Fleet, request: Request, state: PackingState) -> str:
    column = ordering.keys(fleet, request, state)[0]
    return min(fleet.rows, key=lambda name: column[fleet.rows[name]])


def use(fleet: Fleet, node: str, card: int, percent: int, cores: int = 0) -> None:
    total = fleet.facts[fleet.rows[node]][card].memory_bytes
    fleet.charge(node, f"card-{card}", Charge(total * percent // 100, milli(cores), 1))


PAST = {a_share(70): 40, a_share(30): 40, a_share(45): 20}


def test_a_share_goes_where_what_is_left_is_requested() -> None:
    fleet = fleet_of(a=cards(2), b=cards(2), c=cards(2))
    use(fleet, "a", 0, 70)  # 30 are left: just what it asks
    use(fleet, "b", 0, 30)  # 70 are left: what others will ask
    assert best(fleet, a_share(30), learned(fleet, PAST)) == "a"
    assert best(fleet, a_share(70), learned(fleet, PAST)) == "b"


def test_cores_count_next_to_memory() -> None:
    """Little memory and all cores: what is left of the memory is of no use to anybody."""
    past = {a_share(20, 80): 30, a_share(80, 20): 30}
    fleet = fleet_of(a=cards(1), b=cards(1), c=cards(1))
    use(fleet, "a", 0, 80, 20)
    use(fleet, "b", 0, 20, 20)
    assert best(fleet, a_share(20, 80), learned(fleet, past)) == "a"


def test_the_last_slot_is_reserved_for_a_share_that_fills_the_card() -> None:
    past = {a_share(10): 50, a_share(70): 50}
    fleet = fleet_of(a=cards(1, slots=2), b=cards(1, slots=2), c=cards(1, slots=2))
    use(fleet, "a", 0, 30)
    use(fleet, "b", 0, 90)
    state = learned(fleet, past)
    assert best(fleet, a_share(10), state) == "b"
    assert best(fleet, a_share(70), state) == "a"


def test_a_blocked_card_has_no_room_and_its_neighbours_keep_their_own() -> None:
    ill = [replace(card, healthy=False) for card in cards(1)]
    mig = [replace(card, id="card-1", index=1, mode="mig") for card in cards(1)]
    fleet = fleet_of(a=[*ill, *mig, a_card("card-2", 2, mib=16000)])
    state = PackingState()
    state.follow(fleet)
    rows = state.rows(None)
    at = fleet.rows["a"]
    assert (rows.kind[at] > 0).tolist() == [False, False, True]
    assert rows.free[0][at, 2] == 16000 << 20
    assert state.steps(fleet, DemandedShape(replace(WHOLE, count=2)))[at] == np.inf
    assert state.steps(fleet, DemandedShape(WHOLE))[at] < np.inf


def test_large_cards_are_reserved_for_what_only_they_can_hold() -> None:
    large = Request(vendor="acme", dialect="acme", memory_bytes=30 * GIB)
    small = Request(vendor="acme", dialect="acme", memory_bytes=15 * GIB)
    fleet = fleet_of(big=cards(4, memory_bytes=32 * GIB), small=cards(4, memory_bytes=16 * GIB))
    state = learned(fleet, {large: 40, small: 40, WHOLE: 40})
    assert best(fleet, WHOLE, state) == "small"
    assert best(fleet, small, state) == "small"
    assert best(fleet, large, state) == "big"


def test_one_vendors_past_says_nothing_about_anothers_cards() -> None:
    fleet = fleet_of(a=cards(2), b=cards(2, vendor="other"))
    state = learned(fleet, PAST)
    own, default = (
        state.forecast.tables[state.rows(None).kind[fleet.rows[name]][0]] for name in "ab"
    )
    assert len(own.value) > len(default.value) == 9
    assert best(fleet, replace(a_share(30), vendor="other"), state) == "b"


def test_a_kind_that_came_after_learning_has_the_defaults_values() -> None:
    fleet = fleet_of(a=cards(2))
    state = learned(fleet, PAST)
    before = state.forecast.tables[1].value
    fleet.put("new", cards(2, memory_bytes=64 * GIB))
    columns = ordering.keys(fleet, a_share(30), state)
    assert columns[0][fleet.rows["new"]] < np.inf
    assert np.array_equal(state.forecast.tables[1].value, before)
    assert len(state.forecast.tables[2].value) == 9


def test_where_hosts_are_known_cards_are_not_stranded_without_processor() -> None:
    fleet = fleet_of(a=cards(4), b=cards(4))
    columns = np.zeros((4, len(fleet.names)))
    columns[:, fleet.rows["a"]] = 12000, 64 * GIB, 64000, 64 * GIB
    columns[:, fleet.rows["b"]] = 64000, 64 * GIB, 64000, 64 * GIB
    hosts = HostColumns(*columns)
    state = learned(fleet, {WHOLE: 60}, hosts)
    greedy = ordering.keys(fleet, WHOLE, state, hosts=hosts, host=Host(12000, GIB))[0]
    assert greedy[fleet.rows["b"]] < greedy[fleet.rows["a"]]
    modest = ordering.keys(fleet, WHOLE, state, hosts=hosts, host=Host(0, GIB))[0]
    assert modest[fleet.rows["a"]] < modest[fleet.rows["b"]]


def test_nodes_are_set_apart_and_given_up_as_they_are_needed_less() -> None:
    nodes = whole_nodes(np.array([8, 2, 8, 8, 8]), np.array([1, 1, 1, 2, 1]), 8)
    assert nodes.tolist() == [0, 2, 4]
    reserve = WholeNodeReserve(nodes, 8, many=0.5)
    idle = np.array([8, 2, 8, 8, 8])
    reserve.settle(idle, left=30)
    assert reserve.rows == [4, 2]
    assert reserve.columns(1, idle)[0].tolist() == [0, 0, 1, 0, 1]
    outside, fewest = reserve.columns(8, idle)
    assert outside.tolist() == [1, 1, 0, 1, 0]
    assert fewest.tolist() == [0, 0, 8, 0, 8]
    reserve.settle(idle, left=16)
    assert reserve.rows == [4]


@pytest.mark.parametrize("reserve", [False, True])
def test_shapes_warmed_are_answered_alike(reserve: bool) -> None:  # noqa: FBT001  (a parameter)
    fleet = fleet_of(a=cards(2), b=cards(3))
    cold, warm = PackingState(reserve=reserve), PackingState(reserve=reserve)
    warm.follow(fleet)
    warm.warm(fleet, [DemandedShape(WHOLE), DemandedShape(a_share(30))])
    for request in (WHOLE, a_share(30)):
        both = zip(
            ordering.keys(fleet, request, cold), ordering.keys(fleet, request, warm), strict=True
        )
        assert all(np.array_equal(one, other) for one, other in both)


def test_kinds_without_end_are_not_stored_and_their_cards_are_given_last() -> None:
    """A node that publishes other sizes each time."""
    fleet, state = fleet_of(good=cards(2)), PackingState()
    for turn in range(MOST_KINDS + 50):
        fleet.put("evil", cards(1, memory_bytes=(turn + 20_000) << 20))
        state.follow(fleet)
    assert len(state.forecast.kinds) == MOST_KINDS + 1
    assert best(fleet, a_share(30), state) == "good"
    use(fleet, "good", 0, 100)
    use(fleet, "good", 1, 100)
    packer = Packer(state)
    packer.by_default = True
    found = Placer(fleet, packer=packer).place(a_pod(a_share(30)), NO_LIMITS)
    assert isinstance(found, Placement)
    assert found.node == "evil"
