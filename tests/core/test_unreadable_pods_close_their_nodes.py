"""A pod whose grant cannot be read closes its node, whatever comes and goes around it."""

from __future__ import annotations

from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.tombstones import BlockedNodes
from tessera_testing.builders import a_card

CARDS = [a_card("g0", 0)]


def a_fleet() -> Fleet:
    fleet = Fleet()
    for name in ("n0", "n1"):
        fleet.put(name, CARDS)
    return fleet


def closed(fleet: Fleet) -> list[str]:
    return [name for name, row in sorted(fleet.rows.items()) if fleet.blocked[row]]


def test_its_own_node_and_no_other_until_it_can_be_read() -> None:
    fleet = a_fleet()
    unreadable = BlockedNodes(fleet)
    unreadable.add("u", "n1", 0)
    assert closed(fleet) == ["n1"]
    assert unreadable.discard("u")
    assert closed(fleet) == []
    assert not unreadable.discard("u")


def test_the_last_of_several_opens_it() -> None:
    fleet = a_fleet()
    unreadable = BlockedNodes(fleet)
    for uid in ("u", "v", "v"):
        unreadable.add(uid, "n0", 0)
    assert unreadable.discard("u")
    assert closed(fleet) == ["n0"]
    assert unreadable.discard("v")
    assert closed(fleet) == []


def test_a_node_that_comes_later_is_closed_when_it_comes() -> None:
    ledger = Ledger()
    ledger.block_node("n0", "u", 0)
    ledger.put_node("n0", CARDS)
    assert closed(ledger.fleet) == ["n0"]
    ledger.remove_node("n0")
    ledger.put_node("n0", CARDS)
    assert closed(ledger.fleet) == ["n0"]


def test_every_change_of_it_may_change_an_answer() -> None:
    ledger = Ledger()
    ledger.put_node("n0", CARDS)
    seen = [ledger.generation]
    ledger.block_node("n0", "u", 0)
    seen.append(ledger.generation)
    ledger.ended("u")
    seen.append(ledger.generation)
    assert len(set(seen)) == 3
    ledger.ended("u")
    assert ledger.generation == seen[-1]
