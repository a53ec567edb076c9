"""Fractions of cores add up exactly: an empty card is exactly empty, whatever it held."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.fleet.cores import MILLI, WHOLE_CARD, milli, percent
from tessera_core.grants.resize import resized
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_schema.resizes import Resize, ShareChange
from tessera_testing.builders import a_card

VENDORS = load().vendors
fractions = st.one_of(
    st.sampled_from([33.3, 16.7, 8.1, 0.1, 6.25, 12.5, 100 / 3, 99.9, 1e-9]),
    st.floats(0, 50, exclude_min=True),
)


def a_ledger() -> Ledger:
    ledger = Ledger()
    ledger.put_node("n", [a_card("c0", vendor="nvidia", slots=10)])
    ledger.set_limits([Limit(namespace="ns", source="q", cores_percent=100)])
    return ledger


def a_grant(uid: str, cores: float) -> Grant:
    share = Share(
        container="a", position=0, vendor="nvidia", dialect="hami", card="c0", index=0,
        memory_bytes=MIB, cores_percent=cores,
    )  # fmt: skip
    return Grant(uid=uid, namespace="ns", name=uid, node="n", shares=(share,))


def grow(ledger: Ledger, uid: str, cores: float, *, done: bool = True) -> bool:
    entry = ledger.entry(uid)
    assert entry is not None
    asked = Resize(changes=(ShareChange(container="a", card="c0", cores_percent=cores),))
    grant = resized(entry.grant, asked, VENDORS)
    assert isinstance(grant, Grant)
    if grant is entry.grant or ledger.resize(grant) is not None:
        return False
    ledger.resized(uid, done=done)
    return True


def whole_card_fits(ledger: Ledger) -> bool:
    request = Request(
        vendor="nvidia", dialect="hami", memory_percent=100, cores_percent=100,
        owns_whole_cores=True,
    )  # fmt: skip
    container = ContainerRequest(container="a", position=0, role=Role.APP, requests=(request,))
    pod = PodRequest(namespace="ns", name="whole", uid="whole", containers=(container,))
    return isinstance(Placer(ledger.fleet).place(pod, ledger.allowance("ns")), Placement)


def test_a_whole_card_is_free_after_resizes_to_fractions() -> None:
    ledger = a_ledger()
    for uid in ("a", "b", "c"):
        ledger.observe(ObservedPod(uid=uid, grant=a_grant(uid, 10)), 0)
    for uid, cores in (("a", 33.3), ("b", 16.7), ("c", 8.1)):
        assert grow(ledger, uid, cores)
    for uid in ("b", "a", "c"):
        ledger.ended(uid)
    assert ledger.charges_on("n") == {}
    assert ledger.fleet.cards.cores_used.tolist()[ledger.fleet.rows["n"]] == [0]
    assert whole_card_fits(ledger)


steps = st.lists(
    st.tuples(st.sampled_from(["come", "grow", "fail", "go"]), st.integers(0, 5), fractions),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_an_empty_card_is_exactly_empty_after_any_walk(walk: list[tuple[str, int, float]]) -> None:
    """Compared with sums of the grants themselves, in the same whole units."""
    ledger = a_ledger()
    count = 0
    alive: list[str] = []
    for what, which, cores in walk:
        if what == "come":
            count += 1
            uid = f"u{count}"
            if ledger.assume([a_grant(uid, cores)], 0) is None:
                ledger.binding_sent(uid)
                ledger.resolve_binding(uid, bound=True)
                alive.append(uid)
        elif alive:
            uid = alive[which % len(alive)]
            if what == "go":
                ledger.ended(uid)
                alive.remove(uid)
            else:
                grow(ledger, uid, min(cores, 100), done=what == "grow")
        total = sum(milli(share.cores_percent) for entry in ledger.entries()
                    for share in entry.grant.shares)  # fmt: skip
        assert ledger.fleet.cards.cores_used.sum() == total <= WHOLE_CARD
        assert ledger.used(Limit(namespace="ns", source="q")).cores_milli == total
    for uid in alive:
        ledger.ended(uid)
    assert not ledger.fleet.cards.cores_used.any()
    assert whole_card_fits(ledger)
    assert ledger.used(Limit(namespace="ns", source="q")).cores_milli == 0


@pytest.mark.parametrize(
    ("written", "counted"),
    [(0, 0), (-1, 0), (33.3, 33_300), (6.25, 6_250), (100 / 3, 33_333), (1e-9, 1), (100, 100_000),
     (0.0005, 1), (0.0015, 2), (1e308, 10**18)],
)  # fmt: skip
def test_a_percentage_is_the_nearest_thousandth_and_never_nothing(
    written: float, counted: int
) -> None:
    assert milli(written) == counted


@given(st.integers(0, 10**9))
def test_what_is_displayed_is_read_back_as_what_was_counted(units_: int) -> None:
    assert milli(percent(units_)) == units_
    assert isinstance(percent(units_), int) == (units_ % MILLI == 0)


def test_a_resize_grants_what_is_counted() -> None:
    grant = a_grant("a", 10)
    asked = Resize(changes=(ShareChange(container="a", card="c0", cores_percent=100 / 3),))
    made = resized(grant, asked, VENDORS)
    assert isinstance(made, Grant)
    assert made.shares == (replace(grant.shares[0], cores_percent=33.333),)


def test_three_thirds_of_a_quota_and_of_a_card_are_all_of_it() -> None:
    ledger = a_ledger()
    for uid in ("a", "b", "c"):
        assert ledger.assume([a_grant(uid, 33.333)], 0) is None
    assert ledger.assume([a_grant("d", 0.002)], 0) is not None
    assert ledger.assume([a_grant("d", 0.001)], 0) is None
