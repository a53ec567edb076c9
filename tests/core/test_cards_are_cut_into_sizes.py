"""Cards that are cut by templates: a share has a size of its card's model, whichever model it lands
on, and fit, grants, quotas, plans and explanations say the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tessera_core.explain.advice import Barrier
from tessera_core.explain.reasons import explain
from tessera_core.explain.remedies import advise
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.memory_sizes import least_memory, size_on
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.place import NoNode, Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS, Allowance, minimum_usage
from tessera_schema.cards import MIB, Card
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, ModelSizes, PodRequest, Request, Role
from tessera_schema.verdicts import PlanOutcome, Verdict
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.adding import acme

GIB = 1024 * MIB
SIZES = (
    ModelSizes("310P", (3 * GIB, 6 * GIB, 12 * GIB)),
    ModelSizes("910B", (16 * GIB, 32 * GIB)),
    ModelSizes("910B4", (8 * GIB,)),
)
MODELS = ("Ascend310P", "ascend910b", "Ascend910B4-1", "Plain")


def a_request(memory_bytes: int, **more: Any) -> Request:
    return Request(
        vendor="acme", dialect="acme", memory_bytes=memory_bytes, memory_sizes=SIZES, **more
    )


def a_pod_of(*requests: Request, role: Role = Role.APP) -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=role, requests=(request,))
        for i, request in enumerate(requests)
    )
    return PodRequest(namespace="d", name="p", uid="u", containers=containers)


def a_fleet(*nodes: list[Card]) -> Fleet:
    fleet = Fleet()
    for number, cards in enumerate(nodes):
        fleet.put(f"n{number}", cards)
    return fleet


@pytest.mark.parametrize(
    ("model", "asked_gib", "size_gib"),
    [
        ("Ascend310P", 2, 3), ("Ascend310P", 3, 3), ("Ascend310P", 4, 6), ("Ascend310P", 13, None),
        ("ascend910b", 4, 16), ("Ascend910B4-1", 4, 8), ("Ascend910B4-1", 9, None),
        ("Plain", 5, 5),
    ],
)  # fmt: skip
def test_a_request_is_rounded_up_to_a_size_of_the_model(
    model: str, asked_gib: int, size_gib: int | None
) -> None:
    size = None if size_gib is None else size_gib * GIB
    assert size_on(a_request(asked_gib * GIB), model) == size


def test_a_percentage_is_left_as_it_is() -> None:
    fleet = a_fleet([a_card("a", mib=20 * 1024, model="Ascend310P")])
    request = Request(vendor="acme", dialect="acme", memory_percent=50, memory_sizes=SIZES)
    found = Placer(fleet).place(a_pod_of(request), NO_LIMITS)
    assert isinstance(found, Placement)
    assert [share.memory_bytes for share in found.shares] == [10 * GIB]


cards = st.builds(
    a_card, mib=st.sampled_from([8 * 1024, 20 * 1024, 64 * 1024]), model=st.sampled_from(MODELS)
)
nodes = st.lists(st.lists(cards, min_size=1, max_size=3), min_size=1, max_size=4)
asked = st.builds(
    a_request, st.sampled_from([1, 2, 3, 4, 7, 12, 20, 33]).map(lambda gib: gib * GIB),
    count=st.integers(1, 2), together=st.booleans(),
    models=st.sampled_from([(), ("310P",), ("310P", "910B")]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(nodes, st.lists(asked, min_size=1, max_size=2))
def test_each_share_has_the_smallest_size_that_suffices(
    spec: list[list[Card]], requests: list[Request]
) -> None:
    assume(len({request.models for request in requests if request.together}) <= 1)  # as one dialect
    named = [[a_card(f"g{i}", i, mib=c.memory_mib, model=c.model) for i, c in enumerate(node)]
             for node in spec]  # fmt: skip
    fleet, pod = a_fleet(*named), a_pod_of(*requests)
    found = Placer(fleet).place(pod, NO_LIMITS)
    fits = [not isinstance(Placer(fleet).fit(row, units(pod), NO_LIMITS), NoFit)
            for row in fleet.rows.values()]  # fmt: skip
    assert isinstance(found, Placement) or not any(fits)  # it tries more than one fit a node
    reasons = explain(fleet, units(pod), NO_LIMITS, {})
    assert {why.node for why in reasons} == {
        node for node, row in fleet.rows.items() if not fits[row]
    }
    if isinstance(found, NoNode):
        assert advise(fleet, lambda _node: (), pod, NO_LIMITS).barrier is not Barrier.NONE
        return
    facts = {card.id: card for card in fleet.facts[fleet.rows[found.node]]}
    for share in found.shares:
        request = requests[share.position]
        sizes = [s for s in SIZES if s.model.lower() in facts[share.card].model.lower()]
        mine = max(sizes, key=lambda s: len(s.model)).memory_bytes if sizes else ()
        wanted = [size for size in mine if size >= request.memory_bytes]
        assert share.memory_bytes == (wanted[0] if mine else request.memory_bytes)
        assert share.memory_bytes >= least_memory(request)


@settings(max_examples=100, deadline=None)
@given(asked, st.integers(1, 40))
def test_a_quota_counts_the_size(request: Request, limit_gib: int) -> None:
    fleet = a_fleet([a_card("a", mib=64 * 1024, model="Ascend310P"),
                     a_card("b", 1, mib=64 * 1024, model="Ascend310P")])  # fmt: skip
    pod = a_pod_of(request)
    limit = Limit(source="q", namespace="d", vendor="acme", memory_bytes=limit_gib * GIB)
    allowance = Allowance((limit,), {})
    size = size_on(request, "Ascend310P")
    found = Placer(fleet).place(pod, allowance)
    possible = size is not None and request.count * size <= limit_gib * GIB
    assert isinstance(found, Placement) is possible
    least = sum(use.memory_bytes for use in minimum_usage(pod).values())
    assert least <= request.count * (size or least)


def planned(gib: int, cards: str) -> PlanOutcome:
    (outcome,) = plan(
        [a_pod(a_container({"acme.com/gib": gib}))],
        [a_node("n1", annotations={"acme.com/cards": cards})],
        extra=[acme], config={"acme": {"sizes": {"Small": [2, 4], "Large": [8, 16]}}},
    )  # fmt: skip
    return outcome


def test_a_pod_may_land_on_either_model_and_gets_its_size() -> None:
    for cards, mib in (("A0:16:Small", 4096), ("A0:32:Large", 8192), ("A0:16", 3072)):
        outcome = planned(3, cards)
        assert outcome.verdict is Verdict.PLACED
        assert outcome.grant is not None
        assert [share.memory_mib for share in outcome.grant.shares] == [mib]


def test_a_model_without_a_size_that_suffices_is_named() -> None:
    outcome = planned(5, "A0:16:Small,A1:32:Large")
    assert outcome.grant is not None
    assert [share.card for share in outcome.grant.shares] == ["A1"]
    refused = planned(5, "A0:16:Small,A1:16:Small")
    assert refused.verdict is Verdict.WAITING
    assert [(why.reason, why.message) for why in refused.reasons] == [(
        Reason.CARD_TYPE_MISMATCH,
        "2/2 CardTypeMismatch: c0 asks 5120 MiB of a card, the largest share that a card of model "
        "Small can be cut into has 4096 MiB; these are Small",
    )]  # fmt: skip


def test_a_history_has_such_requests() -> None:
    history = History()
    history.add(a_pod_of(a_request(3 * GIB)), 0.0)
    again = History.decode(history.encode(0.0))
    assert [request.memory_sizes for request in again.shapes] == [SIZES]
