"""Memory that owners leave is lent to best-effort pods, and costs owners nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from tessera_core.explain.remedies import advise
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.lent_memory import memory_taken
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.quota.allowance import Allowance
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share, decode_grant, encode_grant
from tessera_schema.quotas import BestEffortLimit, Limit
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card

CARD_MIB = 8000
CARDS = ("g0", "g1")
FREE = Allowance((), {})


def a_ledger(*, slots: int = 100, physical_mib: int = 0) -> Ledger:
    ledger = Ledger()
    physical = physical_mib * MIB
    ledger.put_node(
        "n1",
        [
            a_card(card, i, mib=CARD_MIB, slots=slots, physical_bytes=physical)
            for i, card in enumerate(CARDS)
        ],
    )
    return ledger


def a_request(
    uid: str, mib: int, *, best_effort: bool = True, count: int = 1, exclusive: bool = False
) -> PodRequest:
    request = Request(
        vendor="acme", dialect="acme", count=count, memory_bytes=mib * MIB,
        best_effort=best_effort, exclusive=exclusive,
    )  # fmt: skip
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="d", name=uid, uid=uid, containers=(container,))


def placed(ledger: Ledger, request: PodRequest, screens: ScreenCache | None = None) -> Grant | None:
    found = try_reserve(ledger, Placer(ledger.fleet, screens), request, None, 0)
    return found.grant if isinstance(found, Reserved) else None


def an_owner(uid: str, card: str, mib: int) -> Grant:
    share = Share(
        container="c", position=0, vendor="acme", dialect="acme", card=card, index=0,
        memory_bytes=mib * MIB,
    )  # fmt: skip
    return Grant(uid=uid, namespace="d", name=uid, node="n1", shares=(share,))


def needs(**cards: dict[str, int]) -> dict[str, dict[str, int]]:
    return {card: {uid: mib * MIB for uid, mib in of.items()} for card, of in cards.items()}


def on(ledger: Ledger, column: str, card: str = "g0") -> int:
    place = ledger.fleet.locate("n1", card)
    return int(getattr(ledger.fleet.cards, column)[place]) // MIB


def a_full_card(leaves: int) -> Ledger:
    """A ledger whose first card is granted to one owner, that leaves so many MiB of it."""
    ledger = a_ledger()
    assert ledger.assume([an_owner("owner", "g0", CARD_MIB)], 0) is None
    ledger.set_memory_needs("n1", needs(g0={"owner": CARD_MIB - leaves}))
    return ledger


def lent_on(ledger: Ledger, uid: str, card: str = "g0") -> Grant | None:
    request = a_request(uid, 1000)
    container = request.containers[0]
    ids = structs.replace(container.requests[0], ids=(card,))
    only = structs.replace(container, requests=(ids,))
    return placed(ledger, structs.replace(request, containers=(only,)))


def test_a_best_effort_pod_is_lent_what_owners_leave() -> None:
    ledger = a_full_card(leaves=2500)
    first, second, third = (lent_on(ledger, uid) for uid in ("a", "b", "c"))
    assert first is not None
    assert second is not None
    assert first.shares[0].lent is True
    assert third is None
    assert (on(ledger, "memory_used"), on(ledger, "lent_memory")) == (CARD_MIB, 2000)
    ledger.ended("a")
    assert lent_on(ledger, "d") is not None


def test_a_grant_says_what_is_lent_of_it() -> None:
    grant = lent_on(a_full_card(leaves=2500), "a")
    assert grant is not None
    assert decode_grant(encode_grant(grant)) == grant
    assert '"lent":true' in encode_grant(grant)


def test_where_nothing_is_lent_a_best_effort_pod_is_granted_its_memory() -> None:
    ledger = a_ledger()
    grant = lent_on(ledger, "a")
    assert grant is not None
    assert grant.shares[0].lent is UNSET
    assert (on(ledger, "memory_used"), on(ledger, "lent_memory")) == (1000, 0)


def test_what_is_lent_stays_taken_for_best_effort_pods_where_no_more_is_lent() -> None:
    ledger = a_ledger()
    ledger.set_memory_needs("n1", needs(g0={}))
    assert all(lent_on(ledger, f"a{n}") is not None for n in range(8))
    ledger.set_memory_needs("n1", {})
    assert lent_on(ledger, "b") is None
    assert ledger.assume([an_owner("owner", "g0", CARD_MIB)], 0) is None


def test_an_owner_that_came_since_leaves_nothing() -> None:
    ledger = a_ledger()
    ledger.assume([an_owner("first", "g0", 4000)], 0)
    ledger.set_memory_needs("n1", needs(g0={"first": 1000}))
    ledger.assume([an_owner("second", "g0", 4000)], 0)
    assert on(ledger, "unused") == 3000
    assert lent_on(ledger, "a") is not None


def test_an_owner_that_has_gone_leaves_nothing() -> None:
    ledger = a_ledger()
    ledger.assume([an_owner("first", "g0", 4000), an_owner("second", "g0", 4000)], 0)
    ledger.set_memory_needs("n1", needs(g0={"first": 1000, "second": 4000}))
    ledger.ended("first")
    ledger.assume([an_owner("third", "g0", 4000)], 0)
    assert on(ledger, "unused") == 0
    assert lent_on(ledger, "a") is None


def test_what_pods_leave_of_what_they_are_lent_is_lent_again() -> None:
    ledger = a_full_card(leaves=2500)
    assert lent_on(ledger, "a") is not None
    assert lent_on(ledger, "b") is not None
    assert lent_on(ledger, "c") is None
    ledger.set_memory_needs("n1", needs(g0={"owner": CARD_MIB - 2500, "a": 400, "b": 1000}))
    assert on(ledger, "unused") == 2500 + 600
    assert lent_on(ledger, "c") is not None
    assert on(ledger, "lent_memory") == 3000
    ledger.ended("a")
    assert on(ledger, "unused") == 2500
    assert lent_on(ledger, "d") is None


def test_an_owner_that_ends_takes_what_it_leaves_with_it() -> None:
    """So the end of the other one leaves a best-effort pod a whole card, and its end does not."""
    ledger = a_ledger()
    ledger.assume([an_owner("other", "g1", CARD_MIB)], 0)
    ledger.assume([an_owner("owner", "g0", CARD_MIB - 1000)], 0)
    ledger.set_memory_needs("n1", needs(g0={"owner": 1000}))
    assert lent_on(ledger, "a") is not None
    whole = a_request("b", CARD_MIB)
    advice = advise(ledger.fleet, ledger.on, whole, FREE)
    assert [pod.name for pod in advice.holders] == ["other"]


def test_cards_of_which_more_can_be_granted_than_they_have_lend_nothing() -> None:
    ledger = a_ledger(physical_mib=4000)
    ledger.set_memory_needs("n1", needs(g0={}, g1={}))
    assert not ledger.fleet.cards.lends.any()


def test_a_node_that_publishes_its_cards_again_lends_as_before() -> None:
    ledger = a_full_card(leaves=2500)
    assert lent_on(ledger, "a") is not None
    ledger.put_node("n1", ledger.fleet.facts[ledger.fleet.rows["n1"]])
    assert [on(ledger, name) for name in ("memory_used", "unused", "lent_memory")] == [
        CARD_MIB, 2500, 1000,
    ]  # fmt: skip


def test_a_snapshot_of_a_ledger_does_not_change_with_what_is_lent() -> None:
    ledger = a_ledger()
    before = ledger.snapshot()
    ledger.set_memory_needs("n1", needs(g0={}))
    between = ledger.snapshot()
    assert lent_on(ledger, "a") is not None
    assert [on(each, "lent_memory") for each in (before, between, ledger)] == [0, 0, 1000]
    assert [each.fleet.cards.lends.any() for each in (before, between)] == [False, True]


def test_who_wants_a_card_to_itself_gets_one_that_only_lends() -> None:
    ledger = a_ledger()
    ledger.set_memory_needs("n1", needs(g0={}, g1={}))
    assert lent_on(ledger, "a") is not None
    whole = placed(ledger, a_request("owner", 0, best_effort=False, count=2, exclusive=True))
    assert whole is not None
    assert lent_on(ledger, "b") is None


def test_slots_end_for_those_that_memory_is_lent_to() -> None:
    ledger = a_ledger(slots=2)
    ledger.set_memory_needs("n1", needs(g0={}))
    ledger.assume([an_owner("owner", "g0", 10)], 0)
    assert lent_on(ledger, "a") is not None
    assert lent_on(ledger, "b") is None
    assert ledger.assume([an_owner("second", "g0", 10)], 0) is None


def test_what_is_lent_counts_in_the_quota_of_best_effort_pods() -> None:
    limit = Limit(
        namespace="d", source="q", vendor="acme", memory_bytes=0,
        best_effort=BestEffortLimit(memory_bytes=1500 * MIB),
    )  # fmt: skip
    ledger = a_ledger()
    ledger.set_limits([limit])
    ledger.set_memory_needs("n1", needs(g0={}))
    assert lent_on(ledger, "a") is not None
    assert lent_on(ledger, "b") is None


def test_a_transaction_beyond_the_room_is_refused_whole() -> None:
    ledger = a_full_card(leaves=2500)
    lent = structs.replace(an_owner("x", "g0", 2000).shares[0], best_effort=True, lent=True)
    grants = [structs.replace(an_owner(uid, "g0", 0), shares=(lent,)) for uid in ("x", "y")]
    refusal = ledger.assume(grants, 0)
    assert refusal is not None
    assert refusal.reason is Reason.CARD_INSUFFICIENT_MEMORY
    assert on(ledger, "lent_memory") == 0


@pytest.mark.parametrize("more", [500, 5000])
def test_only_more_room_is_worth_an_attempt(more: int) -> None:
    ledger = a_full_card(leaves=1000)
    assert ledger.set_memory_needs("n1", needs(g0={"owner": CARD_MIB - 1000 - more})) is (
        more > 1024
    )
    assert not ledger.set_memory_needs("n1", needs(g0={"owner": CARD_MIB}))


# -- by chance

sizes = st.integers(0, 16).map(lambda n: n * 500)
"""MiB."""
kinds = st.sampled_from(["owner", "whole", "lent", "lent", "lent", "ends", "hint", "stale"])
steps = st.lists(
    st.tuples(
        kinds,
        st.integers(0, 7), sizes, st.sampled_from([1, 1, 2]),
    ),
    max_size=40,
)  # fmt: skip


def hint(ledger: Ledger, percent: int) -> dict[str, dict[str, int]]:
    """Pods that are there now count with such a part of what they were granted or lent."""
    return {
        card: {
            entry.grant.uid: (charge.memory_bytes + charge.lent_bytes) * percent // 100
            for entry in ledger.on("n1")
            if (charge := entry.charges.get(card)) is not None
            and bool(charge.best_effort) == bool(charge.lent_slots)
        }
        for card in CARDS
    }  # fmt: skip


def is_within_room(ledger: Ledger, before: CardColumns) -> bool:
    """Where more is lent than before, it is no more than there is next to owners."""
    cards = ledger.fleet.cards
    more = cards.lent_memory > before.lent_memory
    taken = memory_taken(cards, best_effort=True)
    return bool((taken <= cards.memory_total)[more].all() and cards.lends[more].all())


def step(ledger: Ledger, screens: ScreenCache, n: int, what: tuple[str, int, int, int]) -> None:
    kind, which, mib, count = what
    if kind == "ends":
        uids = sorted(entry.grant.uid for entry in ledger.entries())
        if uids:
            ledger.ended(uids[which % len(uids)])
    elif kind in ("hint", "stale"):
        ledger.set_memory_needs("n1", hint(ledger, 10 * which) if kind == "hint" else {})
    else:
        request = a_request(
            f"{kind}-{n}", mib, best_effort=kind == "lent", count=count, exclusive=kind == "whole"
        )
        again = Placer(ledger.fleet).place(request, FREE)
        assert Placer(ledger.fleet, screens).place(request, FREE) == again
        placed(ledger, request, screens)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_what_is_lent_is_within_the_room_at_that_moment(
    walk: list[tuple[str, int, int, int]],
) -> None:
    ledger, screens = a_ledger(slots=6), ScreenCache()
    for n, what in enumerate(walk):
        before = ledger.fleet.snapshot().cards
        step(ledger, screens, n, what)
        assert is_within_room(ledger, before)
        assert not ledger.fleet.cards.overgranted()


@settings(max_examples=150, deadline=None)
@given(steps)
def test_owners_get_the_same_whatever_is_lent(walk: list[tuple[str, int, int, int]]) -> None:
    ledger, without, screens = a_ledger(slots=6), a_ledger(slots=6), ScreenCache()
    for n, what in enumerate(walk):
        step(ledger, screens, n, what)
        for uid in [e.grant.uid for e in without.entries() if ledger.entry(e.grant.uid) is None]:
            without.ended(uid)
        new = [
            entry.grant for entry in ledger.entries()
            if without.entry(entry.grant.uid) is None
            and not any(share.lent for share in entry.grant.shares)
        ]  # fmt: skip
        assert without.assume(new, 0) is None
        for request in (
            a_request("next", what[2], best_effort=False, count=what[3]),
            a_request("next", 0, best_effort=False, exclusive=True),
        ):
            here = Placer(ledger.fleet, screens).place(request, FREE)
            assert here == Placer(without.fleet).place(request, FREE)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_a_ledger_that_is_made_from_grants_alone_is_the_same(
    walk: list[tuple[str, int, int, int]],
) -> None:
    ledger, screens = a_ledger(slots=6), ScreenCache()
    for n, what in enumerate(walk):
        step(ledger, screens, n, what)
    latest = hint(ledger, 50)
    ledger.set_memory_needs("n1", latest)
    successor = a_ledger(slots=6)
    for entry in ledger.entries():
        grant = decode_grant(encode_grant(entry.grant))
        assert successor.observe(ObservedPod(uid=grant.uid, grant=grant), 1)
    successor.set_memory_needs("n1", latest)
    for name in CardColumns.__slots__:
        mine, other = getattr(ledger.fleet.cards, name), getattr(successor.fleet.cards, name)
        assert np.array_equal(mine, other), name
