"""From a question to a pod's next grant, and what the ledger holds meanwhile."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Vendor
from tessera_core.grants.resize import follows, resized
from tessera_core.hook.paths import HOOK_LIBRARY
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import Role
from tessera_schema.resizes import Resize, ShareChange

VENDORS = load().vendors
CARD = Card(id="c0", index=0, vendor="nvidia", memory_bytes=16_000 * MIB, cores_percent=100)


def a_share(container: str = "a", mib: int = 4000, cores: float = 40, **more: Any) -> Share:
    share = Share(
        container=container, position=0, vendor="nvidia", dialect="hami", card="c0", index=0,
        memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip
    return replace(share, **more)


def a_grant(*shares: Share, uid: str = "u", revision: int = 0) -> Grant:
    return Grant(
        uid=uid, namespace="ns", name=uid, node="n", shares=shares or (a_share(),),
        revision=revision,
    )  # fmt: skip


def a_resize(container: str = "a", card: str = "c0", **amounts: Any) -> Resize:
    return Resize(changes=(ShareChange(container=container, card=card, **amounts),))


def a_ledger(*grants: Grant) -> Ledger:
    """They are bound."""
    ledger = Ledger()
    ledger.put_node("n", [CARD])
    for grant in grants:
        ledger.observe(ObservedPod(uid=grant.uid, grant=grant), 0)
    return ledger


def charged(ledger: Ledger) -> tuple[int, float]:
    charge = ledger.charges_on("n")["c0"]
    return charge.memory_bytes // MIB, charge.cores_percent


def grown(grant: Grant, mib: int) -> Grant:
    made = resized(grant, a_resize(memory_bytes=mib * MIB), VENDORS)
    assert isinstance(made, Grant)
    return made


# -- the next grant


def test_only_what_is_requested_changes() -> None:
    grant = a_grant(a_share("a"), a_share("b", position=1))
    made = resized(grant, a_resize("b", cores_percent=10), VENDORS)
    assert isinstance(made, Grant)
    assert made == replace(
        grant, revision=1, shares=(a_share("a"), a_share("b", cores=10, position=1))
    )


def test_nothing_to_change_is_the_same_grant() -> None:
    grant = a_grant()
    assert resized(grant, a_resize(memory_bytes=4000 * MIB), VENDORS) == grant


@pytest.mark.parametrize(
    ("share", "question", "why"),
    [
        (a_share(), a_resize("x", memory_bytes=MIB), "container x holds nothing of card c0"),
        (a_share(), a_resize(memory_bytes=MIB - 1), r"changes\[0\].memory_bytes: 1048575: write"),
        (a_share(), a_resize(memory_bytes=1 << 62), "memory_bytes"),
        (a_share(), a_resize(cores_percent=101), "cores_percent: 101: write"),
        (a_share(exclusive=True), a_resize(memory_bytes=MIB), "held whole"),
        (a_share(best_effort=True, lent=True), a_resize(memory_bytes=MIB), "lends its memory"),
        (a_share(vendor="iluvatar"), a_resize(memory_bytes=MIB), "its vendor's own tools"),
        (a_share(), Resize(changes=()), "changes: none"),
    ],
)
def test_what_makes_no_sense_is_reported(share: Share, question: Resize, why: str) -> None:
    reported = resized(a_grant(share), question, VENDORS)
    assert isinstance(reported, str)
    assert re.search(why, reported), reported


@pytest.mark.parametrize(
    "other",
    [
        a_grant(revision=0),
        a_grant(a_share("b"), revision=1),
        a_grant(a_share(card="c1"), revision=1),
        replace(a_grant(revision=1), node="m"),
        a_grant(uid="v", revision=1),
    ],
)
def test_a_later_grant_differs_in_amounts_alone(other: Grant) -> None:
    assert not follows(other, a_grant())
    assert follows(a_grant(a_share(mib=1), revision=1), a_grant())


# -- the ledger


def test_both_amounts_are_taken_until_it_is_known() -> None:
    for mib, between in ((9000, 9000), (1000, 4000)):
        for done in (True, False):
            ledger = a_ledger(a_grant())
            assert ledger.resize(grown(a_grant(), mib)) is None
            assert charged(ledger) == (between, 40)
            ledger.resized("u", done=done)
            assert charged(ledger) == (mib if done else 4000, 40)


def test_what_is_not_free_is_refused_and_nothing_changes() -> None:
    ledger = a_ledger(a_grant(), a_grant(a_share(mib=10_000, cores=50), uid="v"))
    refusal = ledger.resize(grown(a_grant(), 6001))
    assert refusal is not None
    assert refusal.reason is Reason.CARD_INSUFFICIENT_MEMORY
    assert "2001 MiB more asked, 2000 MiB free" in refusal.message
    more_cores = resized(a_grant(), a_resize(cores_percent=51), VENDORS)
    assert isinstance(more_cores, Grant)
    refusal = ledger.resize(more_cores)
    assert refusal is not None
    assert "11 % of cores more asked, 10 % free" in refusal.message
    assert charged(ledger) == (14_000, 90)


def test_init_containers_are_reckoned_as_ever() -> None:
    grant = a_grant(a_share("i", 9000, role=Role.INIT), a_share("a", 4000, position=1))
    ledger = a_ledger(grant)
    assert ledger.resize(grown(grant, 8000)) is None
    ledger.resized("u", done=True)
    assert charged(ledger)[0] == 9000


def test_a_pod_that_is_not_bound_is_not_resized() -> None:
    ledger = a_ledger()
    assert ledger.resize(a_grant(revision=1)) is not None
    assert ledger.assume([a_grant()], 0) is None
    assert ledger.resize(a_grant(a_share(mib=1), revision=1)) is not None


def test_the_later_of_two_grants_holds_in_whatever_order_they_are_observed() -> None:
    ledger, later = a_ledger(a_grant()), a_grant(a_share(mib=9000), revision=1)
    assert ledger.observe(ObservedPod(uid="u", grant=later), 1)
    assert charged(ledger) == (9000, 40)
    assert not ledger.observe(ObservedPod(uid="u", grant=a_grant()), 2)
    assert charged(ledger) == (9000, 40)


def test_the_end_of_init_containers_changes_no_amount_that_is_not_settled() -> None:
    grant = a_grant(a_share("i", 9000, role=Role.INIT), a_share("a", 4000, position=1))
    ledger, later = a_ledger(grant), grown(grant, 8000)
    assert ledger.resize(later) is None
    assert ledger.observe(ObservedPod(uid="u", grant=grant, init_over=True), 1)
    assert charged(ledger)[0] == 9000
    ledger.resized("u", done=True)
    assert charged(ledger)[0] == 8000


steps = st.lists(
    st.tuples(st.sampled_from("uvw"), st.integers(1, 20_000), st.sampled_from([True, False, None])),
    max_size=30,
)


@given(steps)
def test_no_order_of_resizes_exceeds_the_card(plays: list[tuple[str, int, bool | None]]) -> None:
    grants = {uid: a_grant(a_share(mib=3000, cores=20), uid=uid) for uid in "uvw"}
    ledger = a_ledger(*grants.values())
    for uid, mib, done in plays:
        entry = ledger.entry(uid)
        assert entry is not None
        if entry.pending is None:
            ledger.resize(grown(entry.grant, mib))
        if done is not None:
            ledger.resized(uid, done=done)
        assert charged(ledger)[0] <= 16_000
        assert ledger.fleet.cards.overgranted() == 0
    for uid in grants:
        ledger.ended(uid)
    assert not ledger.charges_on("n")


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.name)
def test_a_hooked_vendor_mounts_the_hook(vendor: Vendor) -> None:
    mounts = vendor.give((a_share(vendor=vendor.name),), {}).mounts
    assert vendor.hooked == any(mount.destination == HOOK_LIBRARY for mount in mounts)
