"""What a promise withholds of cards, by what those that leave hold of them still."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tessera_core.fleet.charges import Charge
from tessera_core.gangs.reservation import GangReservation, GangReserved, GangUnschedulable
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import CardPromise, short_of, withholding
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.scheduling.promised_nodes import promised_nodes
from tessera_core.scheduling.reserve import Reserved, Unschedulable, try_reserve
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card
from tests.core.gangs.small_clusters import Demand, SmallCluster, ledger_of, members_of

AT = ("n", "c0")


def a_grant(uid: str, mib: int = 8, cores: float = 0, *, own: bool = False) -> Grant:
    share = Share(
        container="c", position=0, vendor="acme", dialect="acme", card="c0", index=0,
        memory_bytes=mib * MIB, cores_percent=cores, exclusive=own,
    )  # fmt: skip
    return Grant(uid=uid, namespace="team", name=uid, node="n", shares=(share,))


def a_promise(*seats: Grant, leaving: tuple[str, ...] = ("v",), to: str = "high") -> CardPromise:
    return CardPromise(
        plan="p1", to=to, named=f"team/{to}", priority=10, seats=seats, leaving=frozenset(leaving)
    )


def a_ledger(*grants: Grant, promises: tuple[CardPromise, ...]) -> Ledger:
    """A node with one card of 16 MiB."""
    ledger = Ledger()
    ledger.put_node("n", [a_card("c0", mib=16, vendor="acme")])
    assert ledger.assume(grants, 0) is None
    ledger.set_promises(promises)
    return ledger


def a_request(uid: str, mib: int) -> PodRequest:
    asked = Request(vendor="acme", dialect="acme", count=1, memory_bytes=mib * MIB)
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(asked,))
    return PodRequest(uid=uid, namespace="team", name=uid, containers=(container,))


def test_what_those_that_leave_hold_still_is_not_withheld_again() -> None:
    ledger = a_ledger(a_grant("v", 6, 30), promises=(a_promise(a_grant("high", 10, 20)),))
    assert ledger.withheld_from(("x",), 1) == {
        AT: Charge(memory_bytes=4 * MIB, resident_bytes=4 * MIB)
    }
    ledger.ended("v")
    whole = Charge(10 * MIB, 20_000, 1, 0, 10 * MIB)
    assert ledger.withheld_from(("x",), 10)[AT].memory_bytes == whole.memory_bytes
    assert ledger.withheld_from(("x",), 10)[AT].slots == 1
    assert ledger.withheld_from(("x",), 11) == {}
    assert ledger.withheld_from(("high",), 10) == {}


def test_a_whole_card_stays_whole_while_a_part_of_it_leaves() -> None:
    ledger = a_ledger(a_grant("v", 6), promises=(a_promise(a_grant("high", 16, own=True)),))
    assert promised_nodes(ledger, a_request("x", 2), 1, ledger.withheld_from(("x",), 1)) == {
        "n": "room is being made there by plan p1 for team/high, of priority 10: "
        "cards are promised to it"
    }


def test_it_ends_when_the_pod_is_bound() -> None:
    """Cards without a node may be lost again: meanwhile only what the pod has there is its own."""
    ledger = a_ledger(promises=(a_promise(a_grant("high", 10)),))
    assert ledger.withheld_from(("x",), 1)[AT].memory_bytes == 10 * MIB
    assert ledger.assume([a_grant("high", 2)], 0) is None
    assert ledger.withheld_from(("x",), 1)[AT].memory_bytes == 8 * MIB
    ledger.binding_sent("high")
    ledger.resolve_binding("high", bound=True)
    assert ledger.withheld_from(("x",), 1) == {}


def test_a_gang_that_loses_cards_elsewhere_finds_what_it_was_promised() -> None:
    """A member that is reserved on another node, and never starts there, frees nothing here"""
    ledger = a_ledger(promises=(a_promise(a_grant("g0", 16), leaving=(), to="g"),))
    ledger.put_node("m", [a_card("c0", mib=16, vendor="acme")])
    elsewhere = replace(a_grant("g0", 16), node="m")
    assert ledger.assume([elsewhere], 0) is None
    withheld = ledger.withheld_from(("x",), 10)
    assert promised_nodes(ledger, a_request("x", 16), 10, withheld).keys() == {"n"}
    ledger.forget("g0")
    assert ledger.withheld_from(("x",), 10)[AT].memory_bytes == 16 * MIB


def test_a_grown_share_leaves_it_alone() -> None:
    bound = a_grant("x", 4)
    ledger = a_ledger(bound, promises=(a_promise(a_grant("high", 10)),))
    ledger.binding_sent("x")
    ledger.resolve_binding("x", bound=True)
    more = Grant(
        uid="x", namespace="team", name="x", node="n", shares=a_grant("x", 8).shares, revision=1
    )
    assert ledger.resize(more) is not None
    ledger.set_promises(())
    assert ledger.resize(more) is None


@pytest.mark.parametrize(("mib", "answer"), [(6, GangReserved), (7, GangUnschedulable)])
def test_a_gang_is_placed_next_to_it(
    mib: int, answer: type[GangReserved | GangUnschedulable]
) -> None:
    ledger, filters = ledger_of(SmallCluster(nodes=((4, ((0, 0),)),)))
    (card,) = ledger.fleet.facts[ledger.fleet.rows["n0"]]
    share = Share(
        container="c", position=0, vendor=card.vendor, dialect="acme", card=card.id, index=0,
        memory_bytes=4 * MIB,
    )  # fmt: skip
    seat = Grant(uid="high", namespace="team", name="high", node="n0", shares=(share,))
    ledger.set_promises((a_promise(seat),))
    search = GangReservation(
        ledger, filters, members_of([Demand(mib=mib)] * 2),
        withheld=lambda: ledger.withheld_from(("gang",), 1),
    )  # fmt: skip
    found = None
    while found is None:
        found = search.advance(4, 0)
    assert isinstance(found, answer)


def test_two_promises_on_a_card_do_not_overlap() -> None:
    first, second = a_promise(a_grant("high", 10)), a_promise(a_grant("other", 8), to="other")
    ledger = a_ledger(a_grant("v", 16), promises=(first, second))
    short = short_of(ledger.promises, second, ledger.fleet.snapshot(), ledger.entry)
    assert short == "card c0 on n: CardInsufficientMemory"
    ledger.set_promises((first,))
    assert short_of(ledger.promises, first, ledger.fleet.snapshot(), ledger.entry) == ""


def test_the_pod_fits_whatever_others_of_no_higher_priority_take() -> None:
    """Invariant I9."""
    random = Random(20)  # noqa: S311  (repeatable)
    for _ in range(300):
        held = random.randint(0, 16)
        high = random.randint(1, 16)
        victim = (a_grant("v", held),) if held else ()
        ledger = a_ledger(*victim, promises=(a_promise(a_grant("high", high)),))
        placer = Placer(ledger.fleet)
        for n in range(12):
            if n == 6:
                ledger.ended("v")
            uid = f"x{n}"
            with withholding(ledger.fleet, ledger.withheld_from((uid,), 10)):
                decided = try_reserve(
                    ledger, placer, a_request(uid, random.randint(1, 6)), None, 0, 1
                )
            assert isinstance(decided, (Reserved, Unschedulable))
        mine = try_reserve(ledger, placer, a_request("high", high), None, 0, 1)
        assert isinstance(mine, Reserved), (held, high)
        assert ledger.fleet.cards.overgranted() == 0


def test_the_fleet_is_as_it_was_afterwards() -> None:
    ledger = a_ledger(promises=(a_promise(a_grant("high", 10)),))
    before = ledger.fleet.cards.memory_used.copy()
    with withholding(ledger.fleet, ledger.withheld_from(("x",), 1)):
        assert Placer(ledger.fleet).screen(units(a_request("x", 8)), NO_LIMITS, None).sum() == 0
    assert (ledger.fleet.cards.memory_used == before).all()
