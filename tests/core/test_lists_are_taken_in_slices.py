"""A list of pods that the ledger takes in slices comes to what it comes to whole; what happens
between two slices counts, and no slice frees a card that the list shows as held."""

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.slices import ITEMS, at_once
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_testing.builders import a_card
from tests.core.simulated_api import relist

NODES = 4
STARTED, NOW = 100.0, 101.0


def a_grant(uid: str, node: int, mib: int) -> Grant:
    share = Share(
        container="c0", position=0, vendor="acme", dialect="acme", card=f"g{node}", index=0,
        memory_bytes=mib * MIB, cores_percent=0,
    )  # fmt: skip
    return Grant(uid=uid, namespace="default", name=uid, node=f"n{node}", shares=(share,))


def a_ledger(before: Sequence[Grant]) -> Ledger:
    ledger = Ledger()
    for node in range(NODES):
        ledger.put_node(f"n{node}", [a_card(f"g{node}", 0, mib=1000 * MIB, slots=10_000)])
    for grant in before:
        ledger.observe(ObservedPod(uid=grant.uid, grant=grant), 0)
    return ledger


def allocations(ledger: Ledger) -> dict[str, tuple[Grant, AllocationPhase]]:
    return {entry.grant.uid: (entry.grant, entry.phase) for entry in ledger.entries()}


def used(ledger: Ledger) -> list[int]:
    return [int(ledger.fleet.cards.memory_used[row, 0]) for row in range(NODES)]


grants = st.lists(
    st.builds(a_grant, st.just(""), st.integers(0, NODES - 1), st.integers(1, 9)),
    min_size=1, max_size=4 * ITEMS,
)  # fmt: skip


@st.composite
def gaps(draw: st.DrawFn) -> tuple[list[Grant], list[Grant]]:
    """What the ledger had when a watch broke, and what the next list shows: some of the pods have
    gone, some have come, and some were gone before they were ever shown."""
    pods = [
        Grant(uid=f"p{n}", namespace=g.namespace, name=f"p{n}", node=g.node, shares=g.shares)
        for n, g in enumerate(draw(grants))
    ]
    states = draw(st.lists(st.sampled_from(["stays", "goes", "comes"]), min_size=len(pods)))
    of = list(zip(pods, states, strict=False))
    return [p for p, s in of if s != "comes"], [p for p, s in of if s != "goes"]


def a_view(grants: Sequence[Grant], pending: Sequence[str] = ()) -> list[ObservedPod]:
    shown = [ObservedPod(uid=grant.uid, grant=grant) for grant in grants]
    return [*shown, *(ObservedPod(uid=uid, grant=None) for uid in pending)]


@given(gaps())
def test_a_list_in_slices_is_the_list_and_each_slice_is_safe(
    gap: tuple[list[Grant], list[Grant]],
) -> None:
    before, after = gap
    whole, sliced = a_ledger(before), a_ledger(before)
    at_once(relist(whole, a_view(after), STARTED, NOW))
    was, will_be = allocations(sliced), allocations(whole)
    assert will_be.keys() == {grant.uid for grant in after}
    for _ in relist(sliced, a_view(after), STARTED, NOW):
        now = allocations(sliced)
        assert was.keys() & will_be.keys() <= now.keys()
        assert now.items() <= was.items() | will_be.items()
        least = a_ledger([g for uid, (g, _) in was.items() if uid in will_be])
        assert all(a >= b for a, b in zip(used(sliced), used(least), strict=True))
    assert allocations(sliced) == will_be
    assert used(sliced) == used(whole)


@given(gaps(), st.data())
def test_what_happens_between_slices_counts(
    gap: tuple[list[Grant], list[Grant]], data: st.DataObject
) -> None:
    before, after = gap
    assumed = [a_grant(f"new{n}", n % NODES, 5) for n in range(3)]
    late = a_grant("late", 0, 7)
    view = a_view(after, ["new0", "new1"])  # new2 was created after the list
    sliced = a_ledger(before)
    happens: list[Callable[[], object]] = [
        *(partial(sliced.assume, [grant], NOW) for grant in assumed),
        lambda: sliced.binding_sent("new0"),
        lambda: sliced.resolve_binding("new0", bound=True),
        lambda: sliced.observe(ObservedPod(uid="late", grant=late), NOW),
        *([lambda: sliced.ended(after[0].uid)] if after else []),
    ]
    for _ in relist(sliced, view, STARTED, NOW):
        now = data.draw(st.booleans())
        if now and happens:
            happens.pop(0)()
    for what in happens:
        what()
    whole = a_ledger(before)
    at_once(relist(whole, view, STARTED, NOW))
    whole.assume(assumed, NOW)
    whole.binding_sent("new0")
    whole.resolve_binding("new0", bound=True)
    whole.observe(ObservedPod(uid="late", grant=late), NOW)
    if after:
        whole.ended(after[0].uid)
    assert allocations(sliced) == allocations(whole)
    assert used(sliced) == used(whole)
    assert allocations(sliced)["new0"][1] is AllocationPhase.BOUND
