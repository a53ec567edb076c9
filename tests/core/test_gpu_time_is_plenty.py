"""Where GPU time is plenty pressure comes first, and parts leave idle cards to whole ones."""

import pytest

from tessera_core.fleet.charges import Charge
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import Forecast, learn
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import pressure, price
from tessera_core.placement.units import units
from tessera_schema.messages.hints import CardHint, NodeHints
from tessera_schema.requests import (
    ContainerRequest,
    PodRequest,
    PressurePolicy,
    Request,
    Role,
)
from tessera_testing.builders import a_card
from tests.core.test_pressure_orders_places import NAMES, a_cluster, a_pod, put
from tests.core.test_prices_order_places import CHEAP, DEAR, LITTLE, hold, packing, priced


def hot(placer: Placer, node: str) -> None:
    """The node's first card is in use all the time, and cheap."""
    hint = CardHint(
        card=f"{node}-0", busy_percent=100, confidence=1, prices=CHEAP, holders=9,
        expected_percent=LITTLE,
    )  # fmt: skip
    pressure.set_pressure(placer.fleet, NodeHints(node=node, at=0, cards=(hint,)))


def test_where_gpu_time_is_scarce_prices_replace_pressure() -> None:
    placer = a_cluster(packer=packing(), used={"n2": 40})
    hot(placer, "n2")
    for n in ("n0", "n1"):
        hold(placer, n)
        priced(placer, n, DEAR)
    assert not price.is_plenty(placer.fleet)
    assert put(placer, a_pod())[0] == "n2"


@pytest.mark.parametrize("packer", [Packer, packing])
def test_where_it_is_plenty_pressure_comes_first(packer: type[Packer]) -> None:
    placer = a_cluster(packer=packer(), used={"n2": 40})
    hot(placer, "n2")
    assert price.is_plenty(placer.fleet)
    assert put(placer, a_pod())[0] != "n2"


def test_where_it_is_plenty_nobody_is_taken_to_want_less_than_half_a_card() -> None:
    placer = a_cluster(packer=packing())
    lead = units(a_pod())[0].lead
    hold(placer, "n0")
    priced(placer, "n0", CHEAP, wants={"little": 5, "much": 80})
    assert price.wanted_percent(placer.fleet, "little", lead, plenty=True) == price.MEAN_PERCENT
    assert price.wanted_percent(placer.fleet, "much", lead, plenty=True) == 80
    assert price.wanted_percent(placer.fleet, "little", lead, plenty=False) == 5


@pytest.mark.parametrize("packer", [Packer, packing])
def test_and_prices_decide_between_cards_under_equal_pressure(packer: type[Packer]) -> None:
    placer = a_cluster(packer=packer(), used={"n0": 10, "n1": 10, "n2": 10})
    for n, prices in (("n0", DEAR), ("n1", CHEAP), ("n2", DEAR)):
        priced(placer, n, prices, expected=LITTLE)
    for busy in (f"busy{number}" for number in range(9)):
        placer.fleet.put(busy, [a_card(f"{busy}-0")])
        hold(placer, busy)
        hot(placer, busy)
    assert price.is_plenty(placer.fleet)
    assert put(placer, a_pod())[0] == "n1"


def test_it_is_plenty_by_what_pods_want_for_their_memory_however_many_they_are() -> None:
    placer = a_cluster()
    quarter = Charge(memory_bytes=a_card("").memory_bytes // 4, cores_milli=0, slots=1)
    for each in NAMES:
        placer.fleet.charge(each, f"{each}-0", quarter)
        priced(placer, each, CHEAP, expected=10)
        assert price.demand_density(placer.fleet) == pytest.approx(0.4)
        assert price.is_plenty(placer.fleet)
    for each in NAMES:
        priced(placer, each, CHEAP, expected=30)
    assert price.demand_density(placer.fleet) == pytest.approx(1.2)
    assert not price.is_plenty(placer.fleet)


@pytest.mark.parametrize(("number", "plenty"), [(1e300, False), (-1e300, True)])
def test_no_number_is_too_large(number: float, *, plenty: bool) -> None:
    placer = a_cluster(used={"n0": 10})
    priced(placer, "n0", CHEAP, expected=number, sharers=int(number))
    assert price.is_plenty(placer.fleet) == plenty
    assert put(placer, a_pod())[0]


def test_cards_without_prices_do_not_count_for_it() -> None:
    placer = a_cluster(used={"n0": 10, "n1": 10})
    assert price.demand_density(placer.fleet) == 0
    priced(placer, "n0", CHEAP, expected=10)
    one = price.demand_density(placer.fleet)
    assert one > 0
    priced(placer, "n1", CHEAP, expected=10)
    assert price.demand_density(placer.fleet) == pytest.approx(one)


def test_where_gpu_time_is_plenty_parts_keep_away_from_cards_that_nobody_holds() -> None:
    placer = a_cluster(packer=packing(), cards=2)
    fleet = placer.fleet
    for n in NAMES:
        priced(placer, n, (0, 0, 0, 0, 20), (0, 0, 0, 0, 20), expected=LITTLE)
    hold(placer, "n1", 1)
    lead = placer.with_pressure(a_pod(), units(a_pod()))[0].lead
    assert lead.policy.pressure is PressurePolicy.FIRST_PRICED
    row = fleet.rows["n1"]
    assert pressure.felt(fleet.cards, lead)[row, :2].tolist() == [pressure.IDLE, 0]
    assert put(placer, a_pod()) == ("n1", "n1-1")
    for n in NAMES:
        priced(placer, n, (1, 3, 30, 40, 60), (1, 3, 30, 40, 60))
    lead = placer.with_pressure(a_pod(), units(a_pod()))[0].lead
    assert lead.policy.pressure is PressurePolicy.PRICE
    assert not pressure.felt(fleet.cards, lead).any()


A_CARD = Request(vendor="acme", dialect="acme", memory_percent=100, cores_percent=100)
A_CARD_OF_ITS_OWN = Request(vendor="acme", dialect="acme", count=2, exclusive=True)
HALF = Request(vendor="acme", dialect="acme", memory_percent=50, cores_percent=50)


def learned(placer: Placer, *asked: Request) -> Forecast:
    """What is expected of the placer's cluster, from so many pods that came equally often."""
    packer, history = placer.packer, History()
    assert packer is not None
    for request in asked:
        container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
        for n in range(60):
            history.add(PodRequest(namespace="d", name="p", uid=f"{n}", containers=(container,)), 0)
    packer.state.adopt(learn(*packer.state.lesson(placer.fleet, history, 0)))
    return packer.state.forecast


@pytest.mark.parametrize(
    ("asked", "whole"),
    [
        ((HALF, A_CARD), True),
        ((HALF, A_CARD_OF_ITS_OWN), True),
        ((HALF,), False),
        ((), True),  # nothing is known
    ],
)
def test_without_requests_for_whole_cards_parts_begin_cards_that_nobody_holds(
    asked: tuple[Request, ...],
    whole: bool,  # noqa: FBT001  (a case)
) -> None:
    placer = a_cluster(packer=packing(), cards=2)
    for n in NAMES:
        priced(placer, n, (0, 0, 0, 0, 20), (0, 0, 0, 0, 20), expected=LITTLE)
    hold(placer, "n1", 1)
    assert price.is_plenty(placer.fleet)
    assert learned(placer, *asked).whole == whole
    assert placer.packer is not None
    wanted = placer.packer.units("u", units(a_pod()))
    lead = placer.with_pressure(a_pod(), wanted)[0].lead
    assert lead.policy.pressure is PressurePolicy.FIRST_PRICED
    felt = pressure.felt(placer.fleet.cards, lead)[placer.fleet.rows["n1"], :2].tolist()
    assert felt == ([pressure.IDLE, 0] if whole else [0, 0])


def test_without_prices_cards_that_nobody_holds_cost_nothing_more() -> None:
    placer = a_cluster(packer=packing())
    pod = a_pod()
    assert placer.with_pressure(pod, wanted := units(pod)) is wanted
