"""`bestEffort` of an AcceleratorQuota: its pods count there, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.quota.allowance import minimum_usage
from tessera_core.quota.objects import (
    AcceleratorQuota,
    AcceleratorQuotaSpec,
    BestEffort,
    accelerator_limit,
)
from tessera_core.quota.status import Measured, amounts, best_effort, excess
from tessera_core.registry.registry import load
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import ObjectMeta
from tessera_schema.quotas import BestEffortAmounts, BestEffortLimit, Guaranteed, Limit
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card

GIB = 1024 * MIB
APART = BestEffortLimit(memory_bytes=10 * GIB)


def limit(**facts: Any) -> Limit:
    return Limit(namespace="team", source="AcceleratorQuota gpus", **facts)


def a_grant(uid: str, mib: int, *, best_effort: bool) -> Grant:
    share = Share(
        container="c", position=0, vendor="acme", dialect="acme", card="c0", index=0,
        memory_bytes=mib * MIB, best_effort=True if best_effort else UNSET,
    )  # fmt: skip
    return Grant(uid=uid, namespace="team", name=uid, node="n1", shares=(share,))


def a_request(uid: str, gib: int, *, best_effort: bool) -> PodRequest:
    request = Request(
        vendor="acme", dialect="acme", memory_bytes=gib * GIB, best_effort=best_effort,
        needs_free_cores=not best_effort,
    )  # fmt: skip
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="team", name=uid, uid=uid, containers=(container,))


def a_ledger(*limits: Limit) -> Ledger:
    """A card of 64 GiB, of which an owner holds 4 GiB, and a best-effort pod 6."""
    ledger = Ledger()
    ledger.put_node("n1", [a_card("c0", 0, mib=64 * 1024)])
    for uid, gib, rest in (("owner", 4, False), ("rest", 6, True)):
        grant = a_grant(uid, gib * 1024, best_effort=rest)
        ledger.observe(ObservedPod(uid=uid, grant=grant), 0)
    ledger.set_limits(limits)
    return ledger


def why_not(ledger: Ledger, gib: int, *, best_effort: bool) -> str:
    """Why a pod of so much memory waits; empty = it is placed. Asked of the first look, and of the
    whole placement."""
    request = a_request("new", gib, best_effort=best_effort)
    over = ledger.allowance("team").exceeded(minimum_usage(request))
    decided = try_reserve(ledger, Placer(ledger.fleet), request, None, 0)
    assert isinstance(decided, Reserved) is not bool(over)
    return over


def test_without_it_all_pods_count_together() -> None:
    ledger = a_ledger(limit(memory_bytes=12 * GIB))
    assert "10240 are used and 4096 asked" in why_not(ledger, 4, best_effort=True)
    assert why_not(ledger, 2, best_effort=True) == ""


def test_with_it_each_counts_its_own() -> None:
    ledger = a_ledger(limit(memory_bytes=12 * GIB, best_effort=APART))
    assert why_not(ledger, 5, best_effort=True) == (
        "AcceleratorQuota gpus allows 10240 MiB of memory of best-effort pods, 6144 are used and "
        "5120 asked"
    )
    assert why_not(ledger, 4, best_effort=True) == ""
    other = a_ledger(limit(memory_bytes=12 * GIB, best_effort=APART))
    assert "12288 MiB of memory, 4096 are used" in why_not(other, 9, best_effort=False)
    assert why_not(other, 8, best_effort=False) == ""


def test_it_has_cards_of_its_own_and_what_is_left_out_is_not_limited() -> None:
    ledger = a_ledger(limit(cards=1, best_effort=BestEffortLimit(cards=1)))
    assert "1 cards of best-effort pods, 1 are used" in why_not(ledger, 1, best_effort=True)
    assert "allows 1 cards, 1 are used" in why_not(ledger, 1, best_effort=False)
    assert why_not(a_ledger(limit(cards=1, best_effort=APART)), 1, best_effort=True) == ""


def test_zero_blocks_them() -> None:
    ledger = a_ledger(limit(best_effort=BestEffortLimit(memory_bytes=0)))
    assert "allows 0 MiB" in why_not(ledger, 1, best_effort=True)


def test_they_borrow_nothing_of_what_others_are_guaranteed() -> None:
    own, other = (
        limit(guaranteed=Guaranteed(memory_bytes=4 * GIB), best_effort=BestEffortLimit()),
        Limit(namespace="b", source="AcceleratorQuota b", guaranteed=Guaranteed(memory_bytes=GIB)),
    )
    ledger = a_ledger(own, other)
    assert why_not(ledger, 20, best_effort=True) == ""
    assert "4096 are used and 2048 asked" in why_not(ledger, 2, best_effort=False)


def test_the_status_shows_them_apart() -> None:
    apart = limit(memory_bytes=12 * GIB, best_effort=APART)
    uses = {("acme", ""): a_ledger(apart).used(limit(memory_bytes=12 * GIB))}
    assert (amounts(apart, uses).memory, amounts(apart, uses).cards) == ("4Gi", 1)
    assert best_effort(apart, uses) == BestEffortAmounts(memory="6Gi", cards=1)
    together = limit(memory_bytes=12 * GIB)
    assert (amounts(together, uses).memory, amounts(together, uses).cards) == ("10Gi", 2)
    assert best_effort(together, uses) == BestEffortAmounts()


@pytest.mark.parametrize(("measured_gib", "too_much"), [(22, False), (23, True)])
def test_what_is_measured_may_be_both_together(measured_gib: int, *, too_much: bool) -> None:
    apart = limit(memory_bytes=12 * GIB, best_effort=APART)
    allowance = a_ledger(apart).own_allowance(apart)
    assert bool(excess(allowance, apart, Measured(measured_gib * GIB))) is too_much


def test_the_object_says_it() -> None:
    found = accelerator_limit(an_object(BestEffort(memory="10Gi", cards=3)), load())
    assert found.best_effort == BestEffortLimit(memory_bytes=10 * GIB, cards=3)
    assert accelerator_limit(an_object(None), load()).best_effort is None


def an_object(best_effort: BestEffort | None) -> AcceleratorQuota:
    spec = AcceleratorQuotaSpec(best_effort=best_effort)
    return AcceleratorQuota(metadata=ObjectMeta(name="gpus", namespace="team"), spec=spec)


@pytest.mark.parametrize(
    ("written", "field"),
    [
        (BestEffort(memory="a lot"), "spec.bestEffort.memory"),
        (BestEffort(cards=-1), "spec.bestEffort.cards"),
        (BestEffort(cards="1.5"), "spec.bestEffort.cards"),
    ],
)
def test_amounts_that_are_none_are_refused(written: BestEffort, field: str) -> None:
    with pytest.raises(BadLimit) as refused:
        accelerator_limit(an_object(written), load())
    assert refused.value.field == field


def test_a_grown_share_counts_where_it_did() -> None:
    ledger = a_ledger(limit(best_effort=APART))
    grown = replace(a_grant("rest", 11 * 1024, best_effort=True), revision=1)
    refused = ledger.resize(grown)
    assert refused is not None
    assert "memory of best-effort pods" in refused.message
