"""Of several places that fit, one where cards are less used; what fits never depends on it."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import pressure
from tessera_core.placement.units import units
from tessera_core.scheduling.prioritize import node_scores
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.hints import CardHint, NodeHints
from tessera_schema.requests import (
    CardKey,
    ContainerRequest,
    NodeOrder,
    PodRequest,
    Policy,
    Request,
    Role,
)
from tessera_testing.builders import a_card
from tests.core.test_screen_and_fit_agree import FREE, a_fleet, nodes, requests

NAMES = ("n0", "n1", "n2")


def a_cluster(
    cards: int = 1, *, packer: Packer | None = None, used: Mapping[str, float] | None = None
) -> Placer:
    """Three equal nodes; `used` are cores in use of first cards."""
    fleet = Fleet()
    for n in NAMES:
        fleet.put(n, [a_card(f"{n}-{i}", i) for i in range(cards)])
    for n, cores in (used or {}).items():
        held = Charge(memory_bytes=8192 * MIB, cores_milli=milli(cores), slots=1)
        fleet.charge(n, f"{n}-0", held)
    return Placer(fleet, packer=packer)


def hot(placer: Placer, node: str, *cards: int, busy: float = 100) -> None:
    hints = tuple(CardHint(card=f"{node}-{i}", busy_percent=busy, confidence=1) for i in cards)
    pressure.set_pressure(placer.fleet, NodeHints(node=node, at=0, cards=hints))


def a_pod(
    cores: float = 0, count: int = 1, order: NodeOrder = NodeOrder.BINPACK, uid: str = "u"
) -> PodRequest:
    request = Request(
        vendor="acme", dialect="acme", count=count, memory_bytes=MIB, cores_percent=cores,
        policy=Policy(node=order, cards=(CardKey.BINPACK,)),
    )  # fmt: skip
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="d", name="p", uid=uid, containers=(container,))


def put(placer: Placer, pod: PodRequest) -> tuple[str, ...]:
    """Node and cards that the pod gets."""
    found = placer.place(pod, FREE)
    assert isinstance(found, Placement)
    return found.node, *(share.card for share in found.shares)


def test_without_hints_nothing_is_followed() -> None:
    placer, pod = a_cluster(packer=Packer()), a_pod()
    wanted = units(pod)
    assert placer.with_pressure(pod, wanted) is wanted
    hot(placer, "n0", 0, busy=70)
    assert placer.with_pressure(pod, wanted) is wanted
    hot(placer, "n0", 0)
    assert placer.with_pressure(pod, wanted) is not wanted
    hot(placer, "n0")
    assert placer.with_pressure(pod, wanted) is wanted
    assert not placer.fleet.cards.pressure.any()


def test_a_node_whose_card_is_used_up_comes_last() -> None:
    placer = a_cluster(packer=Packer())
    assert put(placer, a_pod())[0] == "n0"
    hot(placer, "n0", 0)
    assert put(placer, a_pod())[0] == "n1"


def test_so_it_does_where_binpack_would_prefer_it() -> None:
    placer = a_cluster(packer=Packer(), used={"n2": 40})
    assert put(placer, a_pod())[0] == "n2"
    hot(placer, "n2", 0)
    assert put(placer, a_pod())[0] == "n0"


def test_another_card_of_the_node_is_as_good_as_another_node() -> None:
    placer = a_cluster(packer=Packer(), cards=2, used={"n0": 40})
    hot(placer, "n0", 0)
    assert put(placer, a_pod()) == ("n0", "n0-1")
    hot(placer, "n0", 0, 1)
    assert put(placer, a_pod())[0] == "n1"


def test_a_full_card_that_rests_does_not_speak_for_its_node() -> None:
    placer = a_cluster(packer=Packer(), cards=2, used={"n0": 100})
    hot(placer, "n0", 1)
    assert put(placer, a_pod(cores=50))[0] == "n1"


def test_several_cards_are_as_good_as_the_worst_of_them() -> None:
    placer = a_cluster(packer=Packer(), cards=2)
    hot(placer, "n0", 0)
    assert put(placer, a_pod(count=2))[0] == "n1"
    assert put(placer, a_pod(count=1)) == ("n0", "n0-1")


def test_a_pod_that_names_an_order_keeps_it_and_only_equals_are_decided() -> None:
    packer = Packer()
    placer = a_cluster(packer=packer, used={"n2": 40})
    packer.named("u")
    hot(placer, "n2", 0)
    assert put(placer, a_pod())[0] == "n2"
    hot(placer, "n2")
    hot(placer, "n0", 0)
    assert put(placer, a_pod(order=NodeOrder.SPREAD))[0] == "n1"


@pytest.mark.parametrize(
    ("order", "used"),
    [
        (NodeOrder.SPREAD, {"n0": 40, "n1": 40}),
        (NodeOrder.LEAST_ALLOCATED, {"n0": 40, "n1": 40}),
        (NodeOrder.MOST_ALLOCATED, {"n2": 40}),
    ],
)
def test_orders_that_do_not_give_way_stay(order: NodeOrder, used: Mapping[str, float]) -> None:
    placer = a_cluster(packer=Packer(), used=used)
    assert put(placer, a_pod(order=order))[0] == "n2"
    hot(placer, "n2", 0)
    assert put(placer, a_pod(order=order))[0] == "n2"


def test_where_nobody_counts_named_orders_only_equals_are_decided() -> None:
    placer = a_cluster(used={"n2": 40})
    hot(placer, "n2", 0)
    assert put(placer, a_pod())[0] == "n2"


def test_pack_goes_by_it_first() -> None:
    packer = Packer()
    placer = a_cluster(cards=2, packer=packer)
    packer.by_default = True
    node, card = put(placer, a_pod(cores=50))
    hot(placer, node, 0, 1)
    other, _ = put(placer, a_pod(cores=50))
    assert other != node
    assert card.startswith(node)


def test_promised_cores_feel_less_than_none() -> None:
    placer = a_cluster(packer=Packer())
    hot(placer, "n0", 0, busy=90)
    assert put(placer, a_pod(cores=20))[0] == "n0"
    assert put(placer, a_pod(cores=0))[0] == "n1"
    hot(placer, "n0", 0, busy=100)
    assert put(placer, a_pod(cores=20))[0] == "n1"


def test_a_card_that_nobody_holds_is_not_begun_for_a_little_less_pressure() -> None:
    placer = a_cluster(packer=Packer(), used={"n2": 20})
    hot(placer, "n2", 0, busy=80)
    assert put(placer, a_pod())[0] == "n2"
    hot(placer, "n2", 0, busy=90)
    assert put(placer, a_pod())[0] == "n0"


def test_a_begun_card_that_rests_is_taken_before_one_that_nobody_holds() -> None:
    placer = a_cluster(packer=Packer(), used={"n1": 20, "n2": 40})
    hot(placer, "n2", 0)
    assert put(placer, a_pod())[0] == "n1"


def test_that_a_card_is_taken_says_nothing_to_who_takes_all_of_it() -> None:
    placer = a_cluster(packer=Packer(), cards=2, used={"n0": 20})
    hot(placer, "n0", 1)
    assert put(placer, a_pod(cores=100))[0] == "n1"


@pytest.mark.parametrize(
    ("hint", "steps"),
    [
        (CardHint(card="c", busy_percent=100, confidence=1), 8),
        (CardHint(card="c", busy_percent=40, confidence=1), 3),
        (CardHint(card="c", busy_percent=40, contended_percent=80, confidence=1), 6),
        (CardHint(card="c", busy_percent=40, trend_percent=80, confidence=1), 4),
        (CardHint(card="c", busy_percent=40, trend_percent=-80, confidence=1), 3),
        (CardHint(card="c", busy_percent=100, contended_percent=100, confidence=0.5), 4),
        (CardHint(card="c", busy_percent=100, contended_percent=100), 0),
    ],
)
def test_pressure_is_use_soon_and_half_of_waiting_by_confidence(hint: CardHint, steps: int) -> None:
    assert pressure.steps(hint) == steps


def test_hints_outlive_a_change_of_the_nodes_cards() -> None:
    placer = a_cluster(packer=Packer())
    hot(placer, "n0", 0)
    placer.fleet.put("n0", [a_card("new", 0), a_card("n0-0", 1)])
    assert placer.fleet.cards.pressure[placer.fleet.rows["n0"]].tolist()[:2] == [0, 8]
    placer.fleet.remove("n0")
    placer.fleet.put("n3", [a_card("n0-0")])
    assert not placer.fleet.cards.pressure[placer.fleet.rows["n3"]].any()


def test_hints_may_come_before_their_node() -> None:
    fleet = Fleet()
    hot(Placer(fleet), "n0", 0)
    fleet.put("n0", [a_card("n0-0")])
    assert fleet.cards.pressure[fleet.rows["n0"], 0] == pressure.STEPS


def test_a_snapshot_keeps_the_pressure_that_it_was_taken_with() -> None:
    placer = a_cluster(packer=Packer())
    before = placer.fleet.snapshot()
    hot(placer, "n0", 0)
    assert not before.cards.pressure.any()
    assert placer.fleet.cards.pressure.any()


def test_scores_for_pods_that_have_preferences_go_by_it_too() -> None:
    ledger = Ledger()
    for n in NAMES:
        ledger.put_node(n, [a_card(f"{n}-0")])
    placer = Placer(ledger.fleet, packer=Packer())
    assert node_scores(placer, a_pod(), NAMES).tolist() == [10, 10, 10]
    hot(placer, "n1", 0)
    assert node_scores(placer, a_pod(), NAMES).tolist() == [10, 0, 10]


@settings(max_examples=200, deadline=None)
@given(
    nodes, st.lists(requests, min_size=1, max_size=3), st.booleans(),
    st.lists(st.integers(0, pressure.STEPS), min_size=24, max_size=24),
)  # fmt: skip
def test_whether_a_pod_fits_does_not_depend_on_it(
    spec: list[list[tuple[Card, Charge]]],
    asked: list[Request],
    packs: bool,  # noqa: FBT001  (drawn)
    levels: list[int],
) -> None:
    plain, pressed = a_fleet(spec), a_fleet(spec)
    packer, twin = Packer(), Packer()
    packer.by_default = twin.by_default = packs
    rest = iter(levels)
    for node, row in pressed.rows.items():
        pressed.set_pressure(node, {c.id: n for c in pressed.facts[row] if (n := next(rest))})
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=Role.APP, requests=(request,))
        for i, request in enumerate(asked)
    )
    pod = PodRequest(namespace="d", name="p", uid="u", containers=containers)
    before, after = (
        Placer(fleet, packer=another).place(pod, FREE)
        for fleet, another in ((plain, packer), (pressed, twin))
    )
    assert isinstance(after, Placement) == isinstance(before, Placement)
    if isinstance(before, Placement) and isinstance(after, Placement):
        assert before.feasible == after.feasible
    if not np.asarray(pressed.cards.pressure).any():
        assert before == after
