"""Pods of several containers: what fits is found, and what is found fits the ledger."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.capacity_check import misfit
from tessera_core.fleet.charges import charges
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.requests import (
    CardKey,
    ContainerRequest,
    PodRequest,
    Policy,
    Request,
    Role,
)
from tessera_testing.builders import a_card

GIB = 1024 * MIB


def a_pod(*requests: tuple[Role, Request]) -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=role, requests=(request,))
        for i, (role, request) in enumerate(requests)
    )
    return PodRequest(namespace="team", name="p", uid="p", containers=containers)


def a_request(gib: int, *, count: int = 1, vendor: str = "acme", together: bool = False) -> Request:
    return Request(
        vendor=vendor, dialect=vendor, count=count, memory_bytes=gib * GIB, together=together,
        policy=Policy(cards=(CardKey.BINPACK,)),
    )  # fmt: skip


def a_ledger(*used_gib: int, other: tuple[int, ...] = ()) -> Ledger:
    """A node with cards of 16 GiB of one vendor, and of another."""
    ledger = Ledger()
    cards = [a_card(f"a{i}", i, mib=16384) for i in range(len(used_gib))]
    cards += [a_card(f"b{i}", i, mib=16384, vendor="other") for i in range(len(other))]
    ledger.put_node("n1", cards)
    shares = tuple(
        Share(container="c", position=0, vendor=card.vendor, dialect="acme", card=card.id,
              index=card.index, memory_bytes=gib * GIB)
        for card, gib in zip(cards, (*used_gib, *other), strict=True) if gib
    )  # fmt: skip
    grant = Grant(uid="busy", namespace="team", name="busy", node="n1", shares=shares)
    ledger.observe(ObservedPod(uid="busy", grant=grant), 0)
    return ledger


def fits_somehow(free: list[int], asks: list[int]) -> bool:
    """By trying every way of giving each ask of one card a card."""
    for cards in itertools.product(range(len(free)), repeat=len(asks)):
        left = list(free)
        for card, gib in zip(cards, asks, strict=True):
            left[card] -= gib
        if min(left) >= 0:
            return True
    return False


def test_the_best_card_is_left_to_the_container_that_needs_it() -> None:
    """binpack would give the fuller card to the small container, which the big one needs."""
    ledger = a_ledger(6, 14)
    found = Placer(ledger.fleet).place(a_pod((Role.APP, a_request(1)), (Role.APP, a_request(1)),
                            (Role.APP, a_request(10))), ledger.allowance("team"),
    )  # fmt: skip
    assert isinstance(found, Placement)
    assert [s.card for s in found.shares] == ["a1", "a1", "a0"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 16), min_size=1, max_size=4),
    st.lists(st.integers(1, 12), min_size=2, max_size=3),
)
def test_containers_that_fit_in_some_way_are_placed(used: list[int], asks: list[int]) -> None:
    ledger = a_ledger(*used)
    pod = a_pod(*((Role.APP, a_request(gib)) for gib in asks))
    found = Placer(ledger.fleet).place(pod, ledger.allowance("team"))
    assert isinstance(found, Placement) == fits_somehow([16 - gib for gib in used], asks)


roles = st.sampled_from([Role.APP, Role.APP, Role.INIT, Role.SIDECAR])
requests = st.builds(
    a_request,
    st.integers(0, 12),
    count=st.integers(1, 2),
    vendor=st.sampled_from(["acme", "acme", "other"]),
    together=st.booleans(),
)
limits = st.builds(
    Limit,
    namespace=st.just("team"),
    source=st.just("q"),
    vendor=st.sampled_from(["", "acme"]),
    memory_bytes=st.sampled_from([None, 8 * GIB, 40 * GIB]),
    cards=st.sampled_from([None, 1, 2, 5]),
    cores_percent=st.sampled_from([None, 100]),
    models=st.sampled_from([None, {"": 0.5}, {"": 1.5}]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 16), min_size=1, max_size=3),
    st.lists(st.integers(0, 16), max_size=2),
    st.lists(st.tuples(roles, requests), min_size=1, max_size=4),
    st.lists(limits, max_size=2),
)
def test_what_placement_finds_the_ledger_takes(
    used: list[int],
    other: list[int],
    asked: list[tuple[Role, Request]],
    limited: list[Limit],
) -> None:
    ledger = a_ledger(*used, other=tuple(other))
    ledger.set_limits(limited)
    pod = a_pod(*asked)
    found = Placer(ledger.fleet).place(pod, ledger.allowance("team"))
    if isinstance(found, Placement):
        grant = Grant(uid="p", namespace="team", name="p", node="n1", shares=found.shares)
        assert misfit(ledger.fleet, grant, charges(grant.shares)) is None
        assert ledger.assume([grant], 0) is None
