"""The ledger by hand: transactions, outcomes, the API server's view."""

import pytest
from msgspec import structs

from tessera_core.fleet.charges import Charge
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.slices import at_once
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_schema.requests import Role
from tessera_testing.builders import a_card
from tests.core.simulated_api import relist


def a_grant(
    uid: str = "u1",
    *,
    node: str = "n1",
    card: str = "g0",
    mib: int = 1000,
    cores: float = 10,
    exclusive: bool = False,
    namespace: str = "default",
) -> Grant:
    share = Share(
        container="c0", position=0, vendor="acme", dialect="acme", card=card, index=0,
        memory_bytes=mib * MIB, cores_percent=cores, exclusive=exclusive,
    )  # fmt: skip
    return Grant(uid=uid, namespace=namespace, name=uid, node=node, shares=(share,))


def a_ledger(*, slots: int = 100) -> Ledger:
    ledger = Ledger()
    ledger.put_node("n1", [a_card("g0", 0, mib=4000, slots=slots), a_card("g1", 1, mib=4000)])
    return ledger


def used_mib(ledger: Ledger, card: str = "g0", node: str = "n1") -> int:
    place = ledger.fleet.locate(node, card)
    assert place is not None
    return int(ledger.fleet.cards.memory_used[place]) // MIB


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (a_grant("u2", mib=3001), Reason.CARD_INSUFFICIENT_MEMORY),
        (a_grant("u2", cores=91), Reason.CARD_INSUFFICIENT_CORE),
        (a_grant("u2", exclusive=True), Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT),
        (a_grant("u2", card="gone"), Reason.UNKNOWN_CARD),
        (a_grant("u2", node="gone"), Reason.NODE_BLOCKED),
    ],
)
def test_no_card_is_taken_beyond_what_it_has(second: Grant, reason: Reason) -> None:
    ledger = a_ledger()
    assert ledger.assume([a_grant("u1")], 0) is None
    refusal = ledger.assume([second], 0)
    assert refusal is not None
    assert refusal.reason is reason
    assert used_mib(ledger) == 1000


def test_slots_end_too() -> None:
    ledger = a_ledger(slots=1)
    ledger.assume([a_grant("u1")], 0)
    refusal = ledger.assume([a_grant("u2")], 0)
    assert refusal is not None
    assert refusal.reason is Reason.CARD_TIME_SLICING_EXHAUSTED


def test_a_transaction_is_taken_whole_or_not_at_all() -> None:
    ledger = a_ledger()
    ledger.assume([a_grant("a", mib=500)], 0)
    refusal = ledger.assume([a_grant("a", mib=2000), a_grant("b", mib=2000), a_grant("c")], 1)
    assert refusal is not None
    assert refusal.uid == "c"
    assert used_mib(ledger) == 500
    assert [e.grant.uid for e in ledger.entries()] == ["a"]
    assert ledger.assume([a_grant("a", mib=2000), a_grant("b", mib=2000)], 2) is None
    assert used_mib(ledger) == 4000


def test_an_unknown_outcome_keeps_its_cards_until_it_is_known() -> None:
    ledger = a_ledger()
    ledger.assume([a_grant()], 0)
    ledger.binding_sent("u1")
    ledger.resolve_binding("u1", bound=None)
    assert ledger.expire(older_than=1e9) == []
    assert used_mib(ledger) == 1000
    ledger.resolve_binding("u1", bound=False)
    assert used_mib(ledger) == 0


def test_only_reservations_expire() -> None:
    ledger = a_ledger()
    ledger.assume([a_grant("old")], 10)
    ledger.assume([a_grant("sent")], 10)
    ledger.assume([a_grant("new")], 20)
    ledger.binding_sent("sent")
    assert [g.uid for g in ledger.expire(older_than=15)] == ["old"]
    assert used_mib(ledger) == 2000


def test_a_pod_under_way_is_not_reserved_again() -> None:
    ledger = a_ledger()
    ledger.assume([a_grant()], 0)
    ledger.binding_sent("u1")
    refusal = ledger.assume([a_grant(mib=1)], 1)
    assert refusal is not None
    assert "binding" in refusal.message


def test_a_late_event_never_brings_an_ended_pod_back() -> None:
    ledger = a_ledger()
    ledger.observe(ObservedPod(uid="u1", grant=a_grant()), 0)
    ledger.observe(ObservedPod(uid="u1", grant=a_grant(), ended=True), 1)
    ledger.observe(ObservedPod(uid="u1", grant=a_grant()), 2)
    assert used_mib(ledger) == 0
    assert ledger.entry("u1") is None


def test_repeats_change_nothing() -> None:
    ledger = a_ledger()
    for now in range(3):
        ledger.observe(ObservedPod(uid="u1", grant=a_grant()), now)
    assert used_mib(ledger) == 1000


def test_a_relist_ends_what_it_does_not_show_but_nothing_newer() -> None:
    ledger = a_ledger()
    ledger.observe(ObservedPod(uid="gone", grant=a_grant("gone")), 0)
    ledger.assume([a_grant("older reservation")], 1)
    ledger.assume([a_grant("newer reservation")], 9)
    at_once(relist(ledger, [ObservedPod(uid="older reservation", grant=None)], 5, 10))
    assert {e.grant.uid for e in ledger.entries()} == {"older reservation", "newer reservation"}


def test_the_api_server_is_believed_over_our_own_reservation() -> None:
    ledger = a_ledger()
    ledger.assume([a_grant(card="g0")], 0)
    ledger.observe(ObservedPod(uid="u1", grant=a_grant(card="g1")), 1)
    entry = ledger.entry("u1")
    assert entry is not None
    assert entry.phase is AllocationPhase.BOUND
    assert (used_mib(ledger, "g0"), used_mib(ledger, "g1")) == (0, 1000)


def test_shares_survive_their_node_and_its_cards() -> None:
    ledger = a_ledger()
    ledger.observe(ObservedPod(uid="u1", grant=a_grant()), 0)
    ledger.put_node("n1", [a_card("g1", 0, mib=4000)])
    assert ledger.charges_on("n1") == {"g0": Charge(1000 * MIB, 10_000, 1, 0, 1000 * MIB)}
    ledger.remove_node("n1")
    ledger.put_node("n1", [a_card("g0", 0, mib=4000)])
    assert used_mib(ledger) == 1000


def test_a_grant_of_a_newer_release_blocks_its_node_until_the_pod_ends() -> None:
    ledger = a_ledger()
    ledger.block_node("n1", "newer", 0)
    refusal = ledger.assume([a_grant()], 0)
    assert refusal is not None
    assert refusal.reason is Reason.NODE_BLOCKED
    ledger.ended("newer")
    assert ledger.assume([a_grant()], 0) is None


def test_quota_is_checked_in_the_same_step() -> None:
    ledger = a_ledger()
    ledger.set_limits(
        [Limit(namespace="team", source="ResourceQuota team/q", memory_bytes=1500 * MIB)]
    )
    assert ledger.assume([a_grant("a", namespace="team")], 0) is None
    refusal = ledger.assume([a_grant("b", namespace="team")], 0)
    assert refusal is not None
    assert refusal.reason is Reason.RESOURCE_QUOTA_NOT_FIT
    assert "allows 1500 MiB of memory, 1000 are used and 1000 asked" in refusal.message
    assert ledger.assume([a_grant("b", namespace="other")], 0) is None
    ledger.forget("a")
    assert ledger.assume([a_grant("c", namespace="team")], 0) is None


def test_use_is_counted_even_where_the_card_came_later() -> None:
    ledger = Ledger()
    ledger.set_limits([Limit(namespace="default", source="q", vendor="acme", models={"A1": 1})])
    ledger.observe(ObservedPod(uid="u1", grant=a_grant(cores=90)), 0)
    ledger.put_node("n1", [a_card("g0", 0, mib=4000, model="A1")])
    refusal = ledger.assume([a_grant("u2", cores=10, mib=0)], 1)
    assert refusal is None
    refusal = ledger.assume([a_grant("u3", cores=0, mib=1000)], 1)
    assert refusal is not None
    assert "1 cards of model A1" in refusal.message


def test_a_card_that_got_another_id_keeps_what_is_taken_of_it() -> None:
    ledger = a_ledger()
    ledger.observe(ObservedPod(uid="u1", grant=a_grant(card="g0", mib=3000)), 0)
    ledger.put_node("n1", [a_card("GPU-0", 0, mib=4000), a_card("GPU-1", 1, mib=4000)])
    assert used_mib(ledger, "GPU-0") == 3000
    refusal = ledger.assume([a_grant("u2", card="GPU-0", mib=2000)], 1)
    assert refusal is not None
    assert refusal.reason is Reason.CARD_INSUFFICIENT_MEMORY
    ledger.ended("u1")
    assert used_mib(ledger, "GPU-0") == 0


def test_a_grant_that_arrives_with_a_former_id_is_charged_too() -> None:
    ledger = Ledger()
    ledger.put_node("n1", [a_card("GPU-0", 0, mib=4000)])
    ledger.observe(ObservedPod(uid="u1", grant=a_grant(card="g0", mib=3000)), 0)
    assert used_mib(ledger, "GPU-0") == 3000


@pytest.mark.parametrize("answer", [True, False, None])
def test_an_answer_after_the_watch_changes_nothing(answer: bool | None) -> None:  # noqa: FBT001  (a table column)
    ledger = a_ledger()
    ledger.assume([a_grant()], 0)
    ledger.binding_sent("u1")
    ledger.observe(ObservedPod(uid="u1", grant=a_grant()), 1)
    ledger.resolve_binding("u1", bound=answer)
    entry = ledger.entry("u1")
    assert entry is not None
    assert entry.phase is AllocationPhase.BOUND
    assert used_mib(ledger) == 1000


def test_a_changed_grant_of_a_bound_pod_stays_and_is_reported() -> None:
    ledger = a_ledger()
    assert ledger.observe(ObservedPod(uid="u1", grant=a_grant(mib=3000)), 0)
    assert not ledger.observe(ObservedPod(uid="u1", grant=a_grant(mib=1)), 1)
    assert not ledger.observe(ObservedPod(uid="u1", grant=a_grant("someone else", mib=1)), 1)
    assert used_mib(ledger) == 3000


def test_a_late_event_does_not_bring_an_init_share_back() -> None:
    ledger = a_ledger()
    share = a_grant().shares[0]
    init = structs.replace(share, role=Role.INIT, memory_bytes=3000 * MIB)
    grant = structs.replace(a_grant(), shares=(init, structs.replace(share, position=1)))
    ledger.observe(ObservedPod(uid="u1", grant=grant), 0)
    assert used_mib(ledger) == 3000
    ledger.observe(ObservedPod(uid="u1", grant=grant, init_over=True), 1)
    ledger.observe(ObservedPod(uid="u1", grant=grant), 2)
    assert used_mib(ledger) == 1000


def test_a_pod_named_twice_or_ended_takes_nothing() -> None:
    ledger = a_ledger()
    twice = ledger.assume([a_grant("a", card="g0"), a_grant("a", card="g1")], 0)
    assert twice is not None
    assert "named twice" in twice.message
    ledger.ended("b")
    gone = ledger.assume([a_grant("b")], 0)
    assert gone is not None
    assert (used_mib(ledger), used_mib(ledger, "g1")) == (0, 0)


def test_a_pod_that_can_be_read_again_opens_its_node() -> None:
    ledger = a_ledger()
    ledger.block_node("n1", "u1", 0)
    ledger.observe(ObservedPod(uid="u1", grant=a_grant()), 1)
    assert ledger.assume([a_grant("u2")], 1) is None


def test_a_pod_that_closed_its_node_after_the_list_began_keeps_it_closed() -> None:
    ledger = a_ledger()
    ledger.block_node("n1", "newer", 9)
    at_once(relist(ledger, [], 5, 10))
    assert ledger.assume([a_grant()], 10) is not None
    at_once(relist(ledger, [], 11, 12))
    assert ledger.assume([a_grant()], 12) is None
