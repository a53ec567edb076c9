"""Several answers for pods that wish where to be; evictions that make room."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.fleet.arrays import Bools
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import load
from tessera_core.scheduling.node_reservations import LONGEST_S, NodeReservation, NodeReservations
from tessera_core.scheduling.preemption import nodes_made_feasible
from tessera_core.scheduling.prioritize import (
    FeasibleNodes,
    feasible_nodes,
    has_placement_preferences,
    node_scores,
)
from tessera_core.scheduling.reserve import Unschedulable
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Spread
from tessera_schema.quotas import Limit
from tessera_schema.requests import PodRequest
from tessera_testing.builders import a_card, a_container, a_pod
from tests.dialects.adding import acme

REGISTRY = load(extra=[acme])
PREFERRED: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
REQUIRED: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}


def a_ledger(*used_gib: int, total: int = 16) -> Ledger:
    """A node for each amount, with one card of which so much is used."""
    ledger = Ledger()
    for n, used in enumerate(used_gib):
        ledger.put_node(f"n{n}", [a_card(f"c{n}", mib=total * 1024)])
        if used:
            share = Share(
                container="c",
                position=0,
                vendor="acme",
                dialect="acme",
                card=f"c{n}",
                index=0,
                memory_bytes=used << 30,
            )
            grant = Grant(
                uid=f"u{n}", namespace="team", name=f"p{n}", node=f"n{n}", shares=(share,)
            )
            assert ledger.assume([grant], 0) is None
    return ledger


def a_request(gib: int, containers: int = 1) -> PodRequest:
    pod = a_pod(*(a_container({"acme.com/gib": gib}) for _ in range(containers)), uid="new")
    admission = admit(REGISTRY, pod)
    assert isinstance(admission, AdmittedPod)
    return admission.request


def placer_of(ledger: Ledger) -> Placer:
    return Placer(ledger.fleet, ScreenCache())


def everywhere(ledger: Ledger) -> Bools:
    return np.array([bool(name) for name in ledger.fleet.names])


@pytest.mark.parametrize(
    ("spec", "wished"),
    [
        ({}, False),
        ({"affinity": {"nodeAffinity": PREFERRED}}, True),
        ({"affinity": {"podAntiAffinity": PREFERRED}}, True),
        ({"affinity": {"nodeAffinity": REQUIRED}}, False),
        ({"affinity": {"nodeAffinity": "garbage", "podAffinity": None}}, False),
        ({"topology_spread_constraints": (Spread("ScheduleAnyway"),)}, True),
        ({"topology_spread_constraints": (Spread("DoNotSchedule"),)}, False),
    ],
)
def test_preferences_are_what_only_kube_scheduler_can_weigh(spec: Any, wished: bool) -> None:  # noqa: FBT001  (a column)
    assert has_placement_preferences(a_pod(**spec)) is wished


def test_all_nodes_with_room_are_given_the_fullest_first() -> None:
    ledger = a_ledger(0, 4, 15, 8)
    found = feasible_nodes(ledger, placer_of(ledger), a_request(4), everywhere(ledger))
    assert found == FeasibleNodes(("n3", "n1", "n0"))
    assert list(ledger.entries())[-1].grant.uid != "new"


def test_where_there_is_no_room_the_pod_waits() -> None:
    ledger = a_ledger(15, 15)
    assert isinstance(
        feasible_nodes(ledger, placer_of(ledger), a_request(4), everywhere(ledger)), Unschedulable
    )


def test_nodes_that_fit_each_container_but_not_all_are_left_out() -> None:
    ledger = a_ledger(0, 10)
    assert feasible_nodes(
        ledger, placer_of(ledger), a_request(4, containers=2), everywhere(ledger)
    ) == FeasibleNodes(("n0",))


def test_quota_holds_for_them_too() -> None:
    ledger = a_ledger(0)
    ledger.set_limits([Limit(namespace="default", source="q", memory_bytes=1 << 30)])
    found = feasible_nodes(ledger, placer_of(ledger), a_request(4), everywhere(ledger))
    assert isinstance(found, Unschedulable)
    assert "q allows" in found.over


def test_scores_go_from_ten_to_nothing_by_the_pods_own_policy() -> None:
    ledger = a_ledger(0, 4, 8, 8)
    names = ["n0", "n1", "n2", "n3", "unknown"]
    scores = node_scores(placer_of(ledger), a_request(4), names)
    assert scores.tolist() == [0, 5, 10, 10, 0]
    assert node_scores(placer_of(ledger), a_request(4), ["unknown"]).tolist() == [0]


def test_evicting_is_of_use_where_it_makes_room() -> None:
    ledger = a_ledger(12, 6, 0)
    victims = {"n0": ["u0"], "n1": ["u0"], "n2": ["nobody"], "gone": ["u0"]}
    before = ledger.fleet.cards.memory_used.copy()
    assert nodes_made_feasible(ledger, a_request(14), victims) == {"n0", "n2"}
    assert (ledger.fleet.cards.memory_used == before).all()


def a_nomination(uid: str = "urgent", node: str = "n0", priority: int = 10) -> NodeReservation:
    return NodeReservation(
        uid=uid, pod=f"team/{uid}", node=node, until=math.inf, priority=priority,
        vendors=frozenset({"acme"}), nominated=True,
    )  # fmt: skip


def test_a_nominated_node_is_closed_to_pods_that_matter_no_more() -> None:
    reserved, request = NodeReservations(), a_request(4)
    assert reserved.put(a_nomination(), 0)
    for priority in (0, 10):
        assert reserved.closed_to(request, priority, 1) == {
            "n0": "room is being made there by preemption for team/urgent, of priority 10"
        }
    assert not reserved.closed_to(request, 11, 1)
    assert not reserved.closed_to(replace(request, uid="urgent"), 10, 1)


def test_a_node_is_open_while_the_ledger_holds_the_nominated_pods_cards() -> None:
    there: set[str] = set()
    reserved = NodeReservations(there.__contains__)
    reserved.put(a_nomination(), 0)
    there.add("urgent")
    assert not reserved.closed_to(a_request(4), 0, 1)
    there.clear()
    assert reserved.closed_to(a_request(4), 0, 1)


def test_a_nomination_holds_once_and_not_for_ever() -> None:
    reserved = NodeReservations()
    reserved.put(a_nomination(), 0)
    assert not reserved.put(a_nomination(), LONGEST_S / 2)
    assert reserved.expire(LONGEST_S)
    assert not reserved.put(a_nomination(), LONGEST_S + 1)
    assert not reserved.closed_to(a_request(4), 0, LONGEST_S + 1)
    assert reserved.put(a_nomination(node="n1"), LONGEST_S + 2)
    assert reserved.closed_to(a_request(4), 0, LONGEST_S + 3).keys() == {"n1"}


@pytest.mark.parametrize("ends", [lambda r: r.drop("urgent"), lambda r: r.keep(frozenset())])
def test_a_nomination_that_was_taken_back_may_be_made_again(ends: Any) -> None:
    reserved = NodeReservations()
    reserved.put(a_nomination(), 0)
    reserved.expire(LONGEST_S)
    ends(reserved)
    assert reserved.put(a_nomination(), LONGEST_S + 1)
