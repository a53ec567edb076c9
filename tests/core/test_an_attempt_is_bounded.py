"""One attempt to place a pod costs a bounded number of looks at nodes, whatever the pod asks, and
the attempts after it come to every node."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType, FunctionType

import msgspec
import pytest
from msgspec.structs import replace

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.fleet.charges import charge_of
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NodeFit
from tessera_core.placement.place import (
    MOST_SCREENED,
    MOST_TAKES,
    NoNode,
    Placement,
    fits_of_an_attempt,
    in_turn,
    refused,
)
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.preemption import nodes_made_feasible
from tessera_schema.cards import MIB
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tessera_schema.quotas import Limit
from tessera_schema.requests import CardKey, ContainerRequest, PodRequest, Policy, Request, Role
from tessera_testing.builders import a_card
from tests.dialects.adding import acme

_read = msgspec.json.Decoder(ExtenderFilterResult).decode


class Counting:
    """How often these functions were called."""

    def __init__(self, *functions: Callable[..., object]) -> None:
        self._codes = {f.__code__: f.__name__ for f in functions if isinstance(f, FunctionType)}
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> "Counting":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code in self._codes:
            self.calls[self._codes[frame.f_code]] += 1


def a_pod(*memory_mib: int, together: bool = False) -> PodRequest:
    containers = tuple(
        ContainerRequest(
            container=f"c{i}", position=i, role=Role.APP,
            requests=(Request(
                vendor="acme", dialect="acme", count=1, memory_bytes=mib * MIB, together=together,
                policy=Policy(cards=(CardKey.BINPACK,)),
            ),),
        )
        for i, mib in enumerate(memory_mib)
    )  # fmt: skip
    return PodRequest(namespace="team", name="p", uid="p", containers=containers)


def a_ledger(nodes: int, *, cards: int = 8, slots: int = 10, mib: int = 16384) -> Ledger:
    ledger = Ledger()
    for n in range(nodes):
        there = [a_card(f"n{n}-{i}", i, slots=slots, mib=mib) for i in range(cards)]
        ledger.put_node(f"n{n}", there)
    return ledger


@pytest.mark.parametrize(("containers", "slots", "nodes"), [(801, 100, 200), (81, 10, 2000)])
def test_containers_without_a_slot_each_are_screened_out(
    containers: int, slots: int, nodes: int
) -> None:
    """One container more than the nodes have slots: no node is tried card by card."""
    fleet = a_ledger(nodes, slots=slots).fleet
    with Counting(NodeFit.take, refused) as counted:
        found = Placer(fleet).place(a_pod(*[1] * containers), NO_LIMITS, attempt=1)
    assert isinstance(found, NoNode)
    assert not found.untried
    assert counted.calls == {"refused": 1}


@pytest.mark.parametrize("cards", [2, 8, 40])
def test_containers_that_the_sums_let_pass_cost_the_same_on_many_nodes(cards: int) -> None:
    """Each container takes more than half a card, and there is one more of them than cards."""
    ledger, pod = a_ledger(300, cards=cards), a_pod(*[9000] * (cards + 1))
    with Counting(NodeFit.take) as counted:
        found = Placer(ledger.fleet).place(pod, NO_LIMITS, attempt=1)
    assert isinstance(found, NoNode)
    assert len(found.untried) == 300 - fits_of_an_attempt(units(pod))
    assert counted.calls["take"] <= MOST_TAKES + len(pod.containers)


def charged(containers: int, limit: Limit) -> int:
    """How many shares are charged to find a place for so many containers under a quota."""
    ledger = a_ledger(1, slots=1000, mib=1 << 20)
    ledger.set_limits([limit])
    with Counting(charge_of) as counted:
        found = Placer(ledger.fleet).place(
            a_pod(*[1] * containers), ledger.allowance("team"), attempt=1
        )
    assert isinstance(found, Placement)
    return counted.calls["charge_of"]


@pytest.mark.parametrize(
    "limit",
    [{"memory_bytes": 1 << 50}, {"models": {"": 100.0}}, {"cards": 8, "cores_percent": 1.0}],
)
def test_under_a_quota_a_container_costs_the_same_whatever_came_before_it(
    limit: dict[str, object],
) -> None:
    few, many = (
        charged(n, replace(Limit(namespace="team", source="q"), **limit)) for n in (20, 200)
    )
    assert many <= 10 * few + 10


def test_different_requests_are_screened_up_to_a_number() -> None:
    fleet = a_ledger(3, slots=1000).fleet
    with Counting(refused) as counted:
        Placer(fleet).place(a_pod(*range(1, 400)), NO_LIMITS, attempt=1)
    assert counted.calls["refused"] == MOST_SCREENED


@pytest.mark.parametrize("rows", [3, 10, 11, 100, 1001])
@pytest.mark.parametrize("fits", [1, 2, 7, 10])
def test_every_node_has_its_turn(rows: int, fits: int) -> None:
    order = sorted(range(rows), key=lambda row: (row * 7) % rows)
    seen = set(in_turn(order, fits, 1))
    assert list(in_turn(order, fits, 1)) == order[:fits]
    for attempt in range(2, 2 + rows // max(fits - 1, 1) + 1):
        tried = in_turn(order, fits, attempt)
        assert tried[0] == order[0]
        assert len(tried) <= max(fits, 2)
        seen.update(tried)
    assert seen == set(range(rows))


class Extender:
    """Nodes of two cards, asked over and over for a pod that only one node can take."""

    def __init__(self, nodes: int) -> None:
        self.ledger, self.decisions = Ledger(), DecisionLog()
        for n in range(nodes):
            self.put(f"n{n:03}", free_mib=[8192, 8192])
        self.filter = Filter(
            load(extra=[acme]),
            self.ledger,
            Placer(self.ledger.fleet, ScreenCache()),
            self.decisions,
        )

    def put(self, node: str, free_mib: list[int]) -> None:
        cards = [a_card(f"{node}-{i}", i, mib=mib) for i, mib in enumerate(free_mib)]
        self.ledger.put_node(node, cards)

    def send(self, gib: list[int]) -> ExtenderFilterResult:
        containers = [
            {"name": f"c{i}", "resources": {"limits": {"acme.com/gib": str(each)}}}
            for i, each in enumerate(gib)
        ]
        pod = {
            "metadata": {"name": "p", "namespace": "team", "uid": "p"},
            "spec": {"containers": containers},
        }
        names = list(self.ledger.fleet.rows)
        return _read(self.filter(json.dumps({"Pod": pod, "NodeNames": names}).encode(), 1.0))


def test_the_only_node_that_can_take_it_is_found_in_the_end() -> None:
    """Three containers of 5 GiB: nodes of 8 and 8 GiB have room by their sums alone. The node that
    can take them comes last in the order, and the ledger does not change meanwhile."""
    extender = Extender(200)
    extender.put("n150", free_mib=[8192, 10240])
    extender.put("n199", free_mib=[8192, 8192])
    answers = [extender.send([5, 5, 5]) for _ in range(1)]
    record = extender.decisions.record("p", extender.ledger.fleet)
    assert record is not None
    words = Counter(answers[0].failed_and_unresolvable_nodes.values())
    untried = words["NodeNotTried"]
    assert untried > 100
    assert record.message.endswith(
        f"; {untried} nodes that may have room were not tried card by card in this attempt: each "
        "attempt tries some of them, until all are tried"
    )
    assert {r.reason.wire for r in record.reasons if r.node == "n150"} == {"NodeNotTried"}
    while not answers[-1].node_names:
        answers.append(extender.send([5, 5, 5]))
        assert len(answers) < 20
    assert answers[-1].node_names == ("n150",)


def test_all_that_wait_for_a_place_are_said_why_once_all_nodes_were_tried() -> None:
    extender = Extender(5)
    answer = extender.send([5, 5, 5])
    assert set(answer.failed_and_unresolvable_nodes.values()) == {
        "AllocatedCardsInsufficientRequest"
    }
    with Counting(NodeFit.take) as counted:
        assert extender.send([5, 5, 5]) == answer
    assert not counted.calls, "the answer is remembered while the books do not change"


def test_evictions_are_evaluated_on_a_bounded_number_of_nodes() -> None:
    ledger = a_ledger(2000, cards=2, mib=8192)
    victims = {node: list[str]() for node in ledger.fleet.rows}
    with Counting(NodeFit.take) as counted:
        assert not nodes_made_feasible(ledger, a_pod(5000, 5000, 5000), victims)
    assert counted.calls["take"] <= MOST_TAKES
