"""Cards of which more memory can be granted than they have: what lies on a card never exceeds it,
whatever comes, goes, grows, or is set otherwise."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import UNSET

from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.fleet.overcommit import is_overcommitted, price, resident_part
from tessera_core.grants.resize import resized
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share
from tessera_schema.injections import Injection
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_schema.resizes import Resize, ShareChange
from tessera_testing.builders import a_card

HOOKED = {"acme": Vendor(name="acme", hooked=True, give=lambda _shares, _cards: Injection())}
BARE = (a_card("a", 0, mib=16_001), a_card("b", 1, mib=8192), a_card("c", 2, mib=16_000))
scalings = st.sampled_from([0.5, 1, 1.1, 1.5, 2, 3.3])
memory = st.sampled_from([1, 7, 100, 1000, 4096, 8000, 12_345, 16_000, 24_000])


def a_request(**amounts: object) -> Request:
    return Request(vendor="acme", dialect="acme", **amounts)  # type: ignore[arg-type]  # by name


requests = st.one_of(
    st.builds(
        lambda mib, count, kind: a_request(memory_bytes=mib * MIB, count=count, **kind),
        memory,
        st.integers(1, 3),
        st.sampled_from([{}, {}, {"guaranteed": True}, {"exclusive": True}]),
    ),
    st.builds(
        lambda percent, kind: a_request(memory_percent=percent, **kind),
        st.sampled_from([10, 33.3, 50, 100]),
        st.sampled_from([{}, {"guaranteed": True}]),
    ),
)


def a_pod(uid: str, *asked: tuple[Role, Request]) -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=role, requests=(request,))
        for i, (role, request) in enumerate(asked)
    )
    return PodRequest(namespace="team", name=uid, uid=uid, containers=containers)


class ScaledCards(RuleBasedStateMachine):
    """One node, whose settings change while pods come, grow and go."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.placer = Placer(self.ledger.fleet)
        self.cards: dict[str, Card] = {}
        self.grants: dict[str, Grant] = {}
        self.number = 0
        self.scale(1.5)

    @rule(scaling=scalings)
    def scale(self, scaling: float) -> None:
        cards = CardSettings(memory_scaling=scaling).applied_to(BARE)
        self.cards = {card.id: card for card in cards}
        self.ledger.put_node("n", cards)

    @rule(request=requests, more=st.none() | requests, role=st.sampled_from(Role))
    def place(self, request: Request, more: Request | None, role: Role) -> None:
        self.number += 1
        asked = [(Role.APP, request)] if more is None else [(role, more), (Role.APP, request)]
        pod = a_pod(f"p{self.number}", *asked)
        before = self.sums()
        found = try_reserve(self.ledger, self.placer, pod, None, 0)
        if not isinstance(found, Reserved):
            assert not getattr(found, "itself", False), "what placement finds, the ledger takes"
            return
        self.grants[pod.uid] = found.grant
        self.ledger.observe(ObservedPod(uid=pod.uid, grant=found.grant), 0)
        for card, (memory_bytes, _) in self.sums().items():
            if memory_bytes > before[card][0]:
                assert memory_bytes <= self.cards[card].memory_bytes
        guaranteed = {f"c{i}": one.guaranteed for i, (_, one) in enumerate(asked)}
        for share in found.grant.shares:
            self.promised(share, guaranteed=guaranteed[share.container])

    def promised(self, share: Share, *, guaranteed: bool) -> None:
        card = self.cards[share.card]
        assert share.on_card_bytes <= share.memory_bytes
        if guaranteed or not is_overcommitted(card):
            assert share.resident_bytes is UNSET
        elif share.exclusive:
            assert share.on_card_bytes == min(share.memory_bytes, card.physical_bytes // MIB * MIB)
        else:
            assert share.on_card_bytes == resident_part(share.memory_bytes, card)

    @precondition(lambda self: self.grants)
    @rule(which=st.integers(0, 99), mib=memory)
    def resize(self, which: int, mib: int) -> None:
        uid = sorted(self.grants)[which % len(self.grants)]
        share = self.grants[uid].shares[0]
        change = ShareChange(container=share.container, card=share.card, memory_bytes=mib * MIB)
        grant = resized(self.grants[uid], Resize(changes=(change,)), HOOKED)
        if isinstance(grant, Grant) and self.ledger.resize(grant) is None:
            self.ledger.resized(uid, done=True)
            self.ledger.observe(ObservedPod(uid=uid, grant=grant), 0)
            self.grants[uid] = grant

    @precondition(lambda self: self.grants)
    @rule(which=st.integers(0, 99))
    def end(self, which: int) -> None:
        uid = sorted(self.grants)[which % len(self.grants)]
        del self.grants[uid]
        self.ledger.ended(uid)

    def sums(self) -> dict[str, tuple[int, int]]:
        """Card -> memory of all pods and what of it lies on the card, by the ledger's entries."""
        held = self.ledger.charges_on("n")
        return {
            id_: (held[id_].memory_bytes, held[id_].resident_bytes) if id_ in held else (0, 0)
            for id_ in self.cards
        }

    @invariant()
    def what_lies_on_a_card_never_exceeds_it(self) -> None:
        for card in BARE:
            assert self.sums()[card.id][1] <= card.memory_bytes

    @invariant()
    def an_empty_card_is_empty(self) -> None:
        if not self.grants:
            assert not self.ledger.fleet.cards.memory_used.any()


def test_whatever_happens_what_lies_on_a_card_fits_it() -> None:
    run_state_machine_as_test(
        ScaledCards, settings=settings(max_examples=150, stateful_step_count=50, deadline=None)
    )


def test_a_share_that_grows_on_the_card_alone_needs_room_there() -> None:
    """The init container's share is the smaller one, and all of it lies on the card"""
    cards = ScaledCards()
    cards.scale(scaling=2)
    for _ in range(2):
        cards.place(a_request(memory_bytes=10_000 * MIB), None, Role.APP)
    card = next(iter(cards.grants.values())).shares[0].card
    small = a_request(memory_bytes=1000 * MIB, guaranteed=True)
    ordinary = a_request(memory_bytes=10_000 * MIB)
    cards.place(ordinary, small, Role.INIT)
    (first, *_, last) = cards.grants.values()
    assert {share.card for share in (*first.shares, *last.shares)} == {card}
    before = cards.sums()[card]
    cards.resize(which=2, mib=9000)
    assert cards.sums()[card] == before
    cards.what_lies_on_a_card_never_exceeds_it()


def test_it_needs_room_there_also_once_the_card_is_overcommitted_no_more() -> None:
    cards = ScaledCards()
    small = a_request(memory_bytes=100 * MIB, guaranteed=True)
    cards.place(a_request(memory_bytes=24_000 * MIB), small, Role.INIT)
    (card,) = {share.card for share in cards.grants["p1"].shares}
    before = cards.sums()[card]
    cards.scale(scaling=0.5)
    cards.resize(which=0, mib=24_000)
    assert cards.sums()[card] == before
    cards.what_lies_on_a_card_never_exceeds_it()


@given(memory, scalings, st.sampled_from(BARE))
def test_an_ordinary_share_costs_what_it_has(mib: int, scaling: float, bare: Card) -> None:
    (card,) = CardSettings(memory_scaling=scaling).applied_to((bare,))
    if is_overcommitted(card):
        part = resident_part(mib * MIB, card)
        assert price(part, card.memory_bytes, card.physical_bytes) <= mib * MIB
        assert resident_part(card.memory_bytes, card) == card.physical_bytes // MIB * MIB


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ([{}, {}, {}], True),  # 3 x 8000 of 24000
        ([{}, {}, {}, {}], False),
        ([{"guaranteed": True}, {"guaranteed": True}], True),  # the whole card, and no more
        ([{"guaranteed": True}, {"guaranteed": True}, {}], False),
        ([{"guaranteed": True}, {}], True),  # 12000 + 8000 of 24000
        ([{"guaranteed": True}, {}, {}], False),
    ],
)
def test_a_guaranteed_pod_costs_what_it_takes_from_the_card(
    asked: list[dict[str, bool]], *, fits: bool
) -> None:
    ledger = Ledger()
    ledger.put_node("n", CardSettings(memory_scaling=1.5).applied_to(BARE[2:]))
    placed = [
        isinstance(
            try_reserve(
                ledger, Placer(ledger.fleet),
                a_pod(f"p{i}", (Role.APP, a_request(memory_bytes=8000 * MIB, **kind))), None, 0,
            ),
            Reserved,
        )
        for i, kind in enumerate(asked)
    ]  # fmt: skip
    assert placed == [True] * (len(asked) - 1) + [fits]
