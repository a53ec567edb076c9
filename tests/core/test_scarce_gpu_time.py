"""Where GPU time is scarce a pod goes where it meets few others that want it."""

import numpy as np
import pytest

from tessera_core.fleet.columns import CardPrice
from tessera_core.placement.packing.potential import STEP
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import price
from tessera_core.placement.units import units
from tessera_schema.requests import PressurePolicy, Request
from tests.core.test_gpu_time_is_plenty import A_CARD, A_CARD_OF_ITS_OWN, HALF, learned
from tests.core.test_pressure_orders_places import NAMES, a_cluster, a_pod, put
from tests.core.test_prices_order_places import DEAR, LITTLE, hold, packing, priced

FULL = 250
"""What those on a full card want together."""


def a_full_cluster() -> Placer:
    """Every card is full, and those on the first one want the least."""
    placer = a_cluster(packer=packing())
    for n in NAMES:
        hold(placer, n)
        priced(placer, n, DEAR, expected=FULL - 100 if n == "n2" else FULL)
    return placer


def responding(placer: Placer, cores: float = 0) -> Request:
    """The request of a pod as it responds to prices."""
    assert placer.packer is not None
    pod = a_pod(cores)
    return placer.with_pressure(pod, placer.packer.units("u", units(pod)))[0].lead


def test_of_full_cards_it_goes_where_the_fewest_want_to_be_served() -> None:
    placer = a_full_cluster()
    assert not learned(placer, HALF).whole
    assert put(placer, a_pod())[0] == "n2"


@pytest.mark.parametrize("asked", [(HALF, A_CARD), (HALF, A_CARD_OF_ITS_OWN), ()])
def test_not_where_others_want_the_whole_cards_that_it_would_begin(
    asked: tuple[Request, ...],
) -> None:
    placer = a_full_cluster()
    assert learned(placer, *asked).whole
    lead = responding(placer)
    assert lead.policy.pressure is PressurePolicy.PRICE
    first = price.steps(placer.fleet.cards, lead)[: len(NAMES), 0]
    assert (first == first[0]).all()


def test_where_gpu_time_is_plenty_prices_alone_count() -> None:
    placer = a_cluster(packer=packing())
    for n in NAMES:
        hold(placer, n)
        priced(placer, n, DEAR, expected=LITTLE)
    assert not learned(placer, HALF).whole
    lead = responding(placer)
    assert lead.policy.pressure is PressurePolicy.FIRST_PRICED
    cards = placer.fleet.cards
    alone = (price.card_prices(cards, lead) * price.WEIGHT / STEP / 100).astype(int)
    assert (price.steps(cards, lead) == alone).all()


def test_a_pod_meets_others_for_the_product_of_what_they_want() -> None:
    placer = a_full_cluster()
    lead = responding(placer)
    cards = placer.fleet.cards
    assert lead.policy.wanted_percent == 50
    assert price.meetings(cards, lead)[: len(NAMES), 0].tolist() == pytest.approx([125, 125, 75])


def test_shares_that_no_hint_counts_are_met_as_if_they_were_alike() -> None:
    placer = a_full_cluster()
    cards, lead = placer.fleet.cards, responding(placer)
    cards.set_price((0, 0), CardPrice(DEAR, 0, 100))
    assert price.meetings(cards, lead)[0, 0] == pytest.approx(50 + 25)


def test_whatever_a_message_says_meetings_have_an_end() -> None:
    placer = a_cluster(packer=packing())
    hold(placer, "n0")
    priced(placer, "n0", DEAR, expected=1e9, wants={"d": 1e9})
    learned(placer, HALF)
    lead = responding(placer)
    assert price.meetings(placer.fleet.cards, lead).max() == price.MOST_MET


def test_a_pod_with_cards_of_its_own_meets_nobody() -> None:
    placer = a_full_cluster()
    learned(placer, HALF)
    assert not np.any(price.meetings(placer.fleet.cards, responding(placer, 100)))
