"""What a card's holders would lose is weighed against what packing loses; what fits never depends
on it."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.columns import UNPRICED
from tessera_core.fleet.cores import milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import pressure, price
from tessera_core.placement.units import units
from tessera_core.scheduling.prioritize import node_scores
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.hints import PRICED_PERCENTS, CardHint, ClassWant, NodeHints
from tessera_schema.requests import (
    ContainerRequest,
    NodeOrder,
    PodRequest,
    PressurePolicy,
    Request,
    Role,
)
from tessera_testing.builders import a_card
from tests.core.test_pressure_orders_places import NAMES, a_cluster, a_pod, put
from tests.core.test_screen_and_fit_agree import FREE, a_fleet, nodes, requests

LITTLE = 1
"""What those on a card are expected to want where GPU time is plenty."""
CHEAP = (0, 0, 0, 2, 20)
DEAR = (12, 25, 50, 75, 100)


def packing() -> Packer:
    packer = Packer()
    packer.by_default = True
    return packer


def priced(
    placer: Placer,
    node: str,
    *prices: tuple[int, ...],
    sharers: int = 9,
    expected: float = 100,
    wants: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Prices of the node's first cards, what those on each are expected to want together, and what
    pods of namespaces want that ask for no cores."""
    cards = tuple(
        CardHint(card=f"{node}-{i}", prices=each, holders=sharers, expected_percent=expected)
        for i, each in enumerate(prices)
    )
    said = tuple(ClassWant(namespace=name, wanted_percent=w) for name, w in wants.items())
    pressure.set_pressure(placer.fleet, NodeHints(node=node, at=0, cards=cards, wants=said))


def hold(placer: Placer, node: str, card: int = 0, cores: float = 10) -> None:
    held = Charge(memory_bytes=4096 * MIB, cores_milli=milli(cores), slots=1)
    placer.fleet.charge(node, f"{node}-{card}", held)


@pytest.mark.parametrize("packer", [Packer, packing])
def test_a_dear_card_comes_last(packer: type[Packer]) -> None:
    placer = a_cluster(packer=packer(), used={"n2": 40})
    assert put(placer, a_pod())[0] == "n2"
    priced(placer, "n2", DEAR)
    assert put(placer, a_pod())[0] != "n2"


@pytest.mark.parametrize("packer", [Packer, packing])
def test_a_cheap_card_is_packed_on_as_ever(packer: type[Packer]) -> None:
    placer = a_cluster(packer=packer(), used={"n2": 40})
    priced(placer, "n2", CHEAP)
    assert put(placer, a_pod())[0] == "n2"


def test_another_card_of_the_node_is_as_good_as_another_node() -> None:
    placer = a_cluster(packer=packing(), cards=2, used={"n0": 40})
    hold(placer, "n0", 1)
    priced(placer, "n0", DEAR, CHEAP)
    assert put(placer, a_pod()) == ("n0", "n0-1")


def test_a_pod_of_a_class_that_wants_little_costs_little() -> None:
    placer = a_cluster(packer=packing(), used={"n2": 40})
    priced(placer, "n2", (0, 2, 40, 70, 100))
    assert put(placer, a_pod())[0] != "n2"
    priced(placer, "n2", (0, 2, 40, 70, 100), wants={"d": 5})
    assert put(placer, a_pod())[0] == "n2"


def test_pods_that_no_hint_counts_yet_are_taken_to_be_alike() -> None:
    placer = a_cluster(packer=packing(), used={"n2": 10})
    priced(placer, "n2", (0, 0, 2, 40, 80), sharers=1)
    assert put(placer, a_pod())[0] == "n2"
    hold(placer, "n2")
    assert put(placer, a_pod())[0] != "n2"
    priced(placer, "n2", (0, 0, 2, 40, 80), sharers=2)
    assert put(placer, a_pod())[0] == "n2"


def test_a_pod_that_takes_whole_cards_has_no_price() -> None:
    placer = a_cluster(packer=packing(), used={"n0": 40})
    priced(placer, "n0", DEAR)
    whole = a_pod(cores=100)
    wanted = placer.with_pressure(whole, units(whole))
    assert wanted[0].lead.policy.pressure is PressurePolicy.PRICE
    assert wanted[0].lead.policy.wanted_percent == 0
    assert not price.card_prices(placer.fleet.cards, wanted[0].lead).any()


def test_a_pod_that_names_an_order_keeps_it() -> None:
    packer = packing()
    placer = a_cluster(packer=packer, used={"n2": 40})
    priced(placer, "n2", DEAR)
    packer.named("u")
    assert put(placer, a_pod())[0] == "n2"
    assert placer.with_pressure(a_pod(), units(a_pod())) == units(a_pod())


@pytest.mark.parametrize("order", [NodeOrder.SPREAD, NodeOrder.LEAST_ALLOCATED])
def test_so_does_a_dialect_that_spreads(order: NodeOrder) -> None:
    placer = a_cluster(packer=packing())
    for n in NAMES:
        hold(placer, n, cores=10)
    hold(placer, "n0")
    priced(placer, "n1", DEAR)
    priced(placer, "n2", CHEAP)
    pod = a_pod(order=order)
    assert placer.with_pressure(pod, units(pod))[0].lead.policy.pressure is PressurePolicy.NOTHING
    assert put(placer, pod)[0] == "n1"


@pytest.mark.parametrize("prices", [(), (100,), DEAR[:4]])
def test_prices_that_are_not_complete_are_none(prices: tuple[int, ...]) -> None:
    placer = a_cluster(packer=packing(), used={"n2": 40})
    priced(placer, "n2", prices)
    assert not placer.fleet.priced
    assert put(placer, a_pod())[0] == "n2"


def test_a_price_is_read_between_the_points_and_beyond_them() -> None:
    points = np.array([[0, 10, 30, 50, 75]], np.uint8)
    assert price.read(points, 12) == 0
    assert price.read(points, 6) == 0
    assert price.read(points, 25) == 10
    assert price.read(points, 37.5) == 20
    assert price.read(points, 100) == 75
    assert price.read(points, 150) == 125


@given(st.floats(0, 400), st.lists(st.integers(0, 100), min_size=5, max_size=5))
def test_it_is_never_negative(percent: float, points: list[int]) -> None:
    assert len(points) == len(PRICED_PERCENTS)
    assert (price.read(np.array([sorted(points)], np.uint8), percent) >= 0).all()


def test_prices_outlive_a_change_of_the_nodes_cards_and_may_come_before_it() -> None:
    fleet = Fleet()
    placer = Placer(fleet)
    priced(placer, "n0", DEAR, sharers=2)
    fleet.put("n0", [a_card("n0-0")])
    row = fleet.rows["n0"]
    assert fleet.cards.prices[row, 0].tolist() == list(DEAR)
    assert fleet.cards.priced[row, 0] == 2
    fleet.put("n0", [a_card("new", 0), a_card("n0-0", 1)])
    assert fleet.cards.priced[row].tolist()[:2] == [UNPRICED, 2]
    fleet.set_prices("n0", {})
    assert not fleet.cards.prices.any()


def test_a_snapshot_keeps_the_prices_that_it_was_taken_with() -> None:
    placer = a_cluster(packer=packing())
    before = placer.fleet.snapshot()
    priced(placer, "n0", DEAR)
    assert not before.cards.prices.any()
    assert placer.fleet.cards.prices.any()


def test_what_classes_want_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price, "MOST_CLASSES", 3)
    placer = a_cluster(packer=packing())
    for n in range(9):
        priced(placer, "n0", DEAR, wants={f"ns-{n}": 10})
    assert [name for name, _ in placer.fleet.wants] == ["ns-6", "ns-7", "ns-8"]


def test_scores_for_pods_that_have_preferences_go_by_it_too() -> None:
    placer = a_cluster(packer=packing())
    for n in NAMES:
        hold(placer, n)
    priced(placer, "n1", DEAR)
    assert node_scores(placer, a_pod(), NAMES).tolist() == [10, 0, 10]


@settings(max_examples=200, deadline=None)
@given(
    nodes, st.lists(requests, min_size=1, max_size=3), st.booleans(),
    st.lists(st.lists(st.integers(0, 100), min_size=5, max_size=5), min_size=24, max_size=24),
)  # fmt: skip
def test_whether_a_pod_fits_does_not_depend_on_it(
    spec: list[list[tuple[Card, Charge]]],
    asked: list[Request],
    packs: bool,  # noqa: FBT001  (drawn)
    drawn: list[list[int]],
) -> None:
    plain, dear = a_fleet(spec), a_fleet(spec)
    packers = Packer(), Packer()
    for packer in packers:
        packer.by_default = packs
        packer.named("u", pack=True)
    rest = iter(drawn)
    for node, row in dear.rows.items():
        cards = tuple(
            CardHint(card=c.id, prices=tuple(sorted(next(rest))), holders=0)
            for c in dear.facts[row]
        )
        price.set_prices(dear, NodeHints(node=node, at=0, cards=cards))
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=Role.APP, requests=(request,))
        for i, request in enumerate(asked)
    )
    pod = PodRequest(namespace="d", name="p", uid="u", containers=containers)
    before, after = (
        Placer(fleet, packer=packer).place(pod, FREE)
        for fleet, packer in zip((plain, dear), packers, strict=True)
    )
    assert isinstance(after, Placement) == isinstance(before, Placement)
    if isinstance(before, Placement) and isinstance(after, Placement):
        assert before.feasible == after.feasible


def test_people_read_what_a_pod_would_cost_on_each_card() -> None:
    placer = a_cluster(packer=packing(), cards=3)
    priced(placer, "n0", DEAR, CHEAP, wants={"d": 50})
    fleet, row = placer.fleet, placer.fleet.rows["n0"]
    lead = units(a_pod())[0].lead
    assert price.of_node(fleet, row, "d", lead) == {"n0-0": 50, "n0-1": 0}
    assert price.of_node(fleet, row, "d", units(a_pod(cores=100))[0].lead) == {}
    assert price.of_node(fleet, fleet.rows["n1"], "d", lead) == {}
