"""With equal parts of memory and cores, `pack` on a fleet is policy A of the trace, written here
once more as plainly as can be: one number per card."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import floor, inf

import numpy as np
import pytest

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import Host
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.card_values import OPEN
from tessera_core.placement.packing.demand import CardKinds, Demand, DemandShape
from tessera_core.placement.packing.demand_history import DemandedShape, History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.free_capacity import HostColumns
from tessera_core.placement.packing.state import PackingState
from tessera_schema.cards import MIB
from tessera_schema.requests import Request
from tessera_testing.builders import a_card
from tests.packing.fleets import GIB, a_pod

MODELS = ("plain", "rare")
SIZES = {5: 8, 15: 3, 35: 7, 45: 9, 80: 6}
"""Percent of a card -> how often in the past."""


@dataclass
class Node:
    """The plain policy's node: thousandths free of each card."""

    model: str
    cpu: float
    memory: float
    cards: list[int] = field(default_factory=lambda: [1000] * 4)


@dataclass(frozen=True)
class Pod:
    percent: int
    count: int
    cpu: int
    model: str = ""


PAST = [
    *(Pod(percent, 1, 5000) for percent, often in SIZES.items() for _ in range(often)),
    *[Pod(100, 1, 9000)] * 12,
    *[Pod(100, 1, 9000, "rare")] * 4,
    *[Pod(100, 4, 30000)] * 2,
]


class PlainA:
    """spec: PHI of a node, and its growth by a pod."""

    def __init__(self, nodes: list[Node], values: list[float]) -> None:
        self.nodes, self.values = nodes, values
        asked = sum(p.percent / 100 * p.count for p in PAST)
        self.cpu_per_card = sum(p.cpu for p in PAST) / asked
        self.memory_per_card = len(PAST) * 16 * GIB / asked
        rare = sum(p.percent / 100 * p.count for p in PAST if p.model)
        cards = Counter(n.model for n in nodes for _ in n.cards)
        self.rho = {"plain": 0.0, "rare": rare * cards.total() / asked / cards["rare"]}

    def phi(self, node: Node, cards: list[int], cpu: float, memory: float) -> float:
        free = sum(cards) / 1000
        partly = sum(f / 1000 - self.values[f // 50] + 0.05 for f in cards if 0 < f < 1000)
        cpu_lost = max(0, free - cpu / min(self.cpu_per_card, 64000 / 4))
        memory_lost = max(0, free - memory / min(self.memory_per_card, 256 * GIB / 4))
        return partly + cpu_lost + memory_lost - 2 * self.rho[node.model] * free

    def steps(self, node: Node, pod: Pod) -> float:
        milli = pod.percent * 10
        serving = [i for i, f in enumerate(node.cards) if f >= milli]
        fits = len(serving) >= pod.count and node.cpu >= pod.cpu and node.memory >= 16 * GIB
        if not fits or (pod.model and pod.model != node.model):
            return inf
        before = self.phi(node, node.cards, node.cpu, node.memory)
        least = inf
        for i in serving if pod.count == 1 else serving[:1]:
            taken = {i} if pod.count == 1 else set(serving[: pod.count])
            after = [f - milli * (j in taken) for j, f in enumerate(node.cards)]
            least = min(least, self.phi(node, after, node.cpu - pod.cpu, node.memory - 16 * GIB))
        return floor((least - before) / 0.04 + 1e-6)


def a_request(pod: Pod) -> Request:
    return Request(
        vendor="acme", dialect="acme", count=pod.count, memory_percent=pod.percent,
        cores_percent=pod.percent, exclusive=pod.percent == 100,
        models=(pod.model,) if pod.model else (),
    )  # fmt: skip


def one_number_per_card() -> list[float]:
    """V of the spec, learned from the trace's kind of card: 1000 thousandths and nothing else."""
    yes = np.array([False, True])
    asks = tuple(
        (DemandShape(np.array([[0], [p * 10]]), yes, yes & False, 1), float(n))
        for p, n in SIZES.items()
    )
    cards = np.array([0, 1])
    kinds = CardKinds(totals=np.array([[1], [1000]]), cards=cards, vendor=cards, amounts=1)
    vendor_of = [(DemandShape(a.need, a.allowed, a.alone, 1, vendor=1), n) for a, n in asks]
    value = learn(kinds, Demand(tuple(vendor_of))).tables[1].value
    return [float(v) + OPEN for v in value]


def fleet_of(nodes: list[Node]) -> Fleet:
    fleet = Fleet()
    for n, node in enumerate(nodes):
        cards = [a_card(f"card-{i}", i, mib=16000, model=node.model) for i in range(4)]
        fleet.put(f"node-{n}", cards)
    return fleet


def hosts_of(fleet: Fleet, nodes: list[Node]) -> HostColumns:
    columns = np.zeros((4, len(fleet.names)))
    for n, node in enumerate(nodes):
        columns[:, fleet.rows[f"node-{n}"]] = node.cpu, node.memory, 64000, 256 * GIB
    return HostColumns(*columns)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_step_is_the_plain_policys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [Node(MODELS[n % 3 == 2], 64000, 256 * GIB) for n in range(9)]
    fleet, state, plain = fleet_of(nodes), PackingState(), PlainA(nodes, one_number_per_card())
    history = History()
    for pod in PAST * 2:
        history.add(a_pod(a_request(pod), cpu_milli=pod.cpu, memory_bytes=16 * GIB), 0)
    state.adopt(learn(*state.lesson(fleet, history, 0, hosts_of(fleet, nodes))))
    placed = 0
    for _ in range(60):
        pod = PAST[int(rng.integers(len(PAST)))]
        wanted, hosts = a_request(pod), hosts_of(fleet, nodes)
        columns = ordering.keys(fleet, wanted, state, hosts=hosts, host=Host(pod.cpu, 16 * GIB))
        for n, node in enumerate(nodes):
            assert columns[0][fleet.rows[f"node-{n}"]] == plain.steps(node, pod), (n, node, pod)
        best = min(range(9), key=lambda n: columns[0][fleet.rows[f"node-{n}"]])
        if columns[0][fleet.rows[f"node-{best}"]] < inf:
            take(fleet, state, nodes[best], best, pod)
            placed += 1
    assert placed > 30


def take(fleet: Fleet, state: PackingState, node: Node, number: int, pod: Pod) -> None:
    """On the cards that `pack` likes best, which must be ones that the plain policy has."""
    name = f"node-{number}"
    view = fleet.view(fleet.rows[name], "acme")
    assert view is not None
    numbers = ordering.card_keys(fleet, view, a_request(pod), state)
    node.cpu -= pod.cpu
    node.memory -= 16 * GIB
    for i in sorted(range(4), key=numbers.__getitem__)[: pod.count]:
        node.cards[i] -= pod.percent * 10
        whole = pod.percent == 100
        cost = Charge(pod.percent * 160 * MIB, milli(pod.percent), 1, whole)
        fleet.charge(name, f"card-{i}", cost)


def test_the_values_are_equal_too() -> None:
    nodes = [Node("plain", 64000, 256 * GIB)]
    fleet, state, history = fleet_of(nodes), PackingState(), History()
    for pod in PAST * 2:
        history.add(a_pod(a_request(pod)), 0)
    forecast = learn(*state.lesson(fleet, history, 0))
    state.adopt(forecast)
    both = forecast.tables[1].value[:, :, -1]
    assert np.diag(both)[1:-1] + OPEN == pytest.approx(one_number_per_card()[1:-1])
    assert state.steps(fleet, DemandedShape(a_request(Pod(50, 1, 0)))).min() < inf
