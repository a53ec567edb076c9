"""An answer about preemption against its budget: 50 ms for a pod on 5,000 nodes x 8 cards that are
full of 50,000 pods, no slice over 10 ms.

Between two answers some pods go, and others that are as they were take their cards (`--changed`).
Times are of the process, so that other work of the machine does not count. The last column is the
share of answers that cost as much as those of a search that tries every node; it takes a while, so
it is made on fewer nodes (`--compared`). Then gangs (`--gangs` answers each), and a pod for which
nobody goes: what is said about that goes through all pods. A slice is as long as a collection of
garbage that falls into it.

    .venv/bin/python benchmarks/preemption.py [--nodes 5000] [--answers 20] [--compared 100] \
        [--changed 50] [--gangs 5]
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.card_nodes import CARD_MIB, CARDS, VENDOR, put_nodes
from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.change_log import ChangeLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.eviction_costs import EvictionCost
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.preemption.preemption import (
    MOST_NODES,
    Preemption,
    PreemptionPlanner,
    PreemptionView,
)
from tessera_core.preemption.victim_columns import VictimColumns
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Quantity,
    Resources,
)
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role

NOW = 1_000_000.0
PARTS = ((1, 0.85), (2, 0.1), (4, 0.05))
"""Pods of a card, and how often a card has so many."""
SHAPES = {
    "a quarter of a card": (1, CARD_MIB // 4, 25.0),
    "a whole card": (1, CARD_MIB, 100.0),
    "4 whole cards": (4, CARD_MIB, 100.0),
    "8 whole cards": (8, CARD_MIB, 100.0),
}
GANGS = {
    "a gang of 2, a whole card each": (2, "a whole card"),
    "a gang of 8, a whole card each": (8, "a whole card"),
    "a gang of 8, 8 whole cards each": (8, "8 whole cards"),
}


class Timed(Struct, frozen=True):
    """One answer; times in milliseconds."""

    cost: EvictionCost | None
    total: float
    longest: float


class Cluster:
    """Nodes whose cards are all full, of pods of several priorities and ages."""

    def __init__(self, nodes: int, chance: random.Random) -> None:
        self.view = _full(nodes, chance)
        self._chance = chance
        self._log = ChangeLog()
        self._uids = list(self.view.bound)

    def change(self, count: int) -> PreemptionView:
        """So many pods end, and others that are as they were take their cards; the cluster then."""
        ledger, bound = self.view.ledger, dict(self.view.bound)
        for n in self._chance.sample(range(len(self._uids)), count):
            uid = self._uids[n]
            old, entry = bound.pop(uid), ledger.entry(uid)
            assert entry is not None  # noqa: S101
            ledger.ended(uid)
            name = self._uids[n] = f"{uid}'"
            pod = replace(old.pod, metadata=replace(old.pod.metadata, name=name, uid=name))
            bound[name] = replace(old, pod=pod)
            ledger.assume([replace(entry.grant, uid=name, name=name)], 0)
            self._log.add(uid)
            self._log.add(name)
        self.view = replace(self.view, bound=bound, bound_at=self._log.here())
        return replace(self.view, ledger=ledger.snapshot())


def _full(nodes: int, chance: random.Random) -> PreemptionView:
    ledger, bound = Ledger(), list[PotentialVictim]()
    amounts: dict[str, Quantity] = {"cpu": "128", "memory": "1024Gi", "pods": "110"}
    objects = [
        Node(metadata=ObjectMeta(name=f"n{n}"), status=NodeStatus(allocatable=amounts))
        for n in range(nodes)
    ]
    put_nodes(ledger, nodes)
    for n in range(nodes):
        for i in range(CARDS):
            (parts,) = chance.choices([p for p, _ in PARTS], [weight for _, weight in PARTS])
            for part in range(parts):
                victim, grant = a_holder(n, i, part, parts, chance)
                ledger.assume([grant], 0)
                bound.append(victim)
    return PreemptionView(
        ledger=ledger, filters=KubeSchedulerFilters(objects, [each.pod for each in bound]),
        bound={each.uid: each for each in bound},
        catalog=GangCatalog(gangs={}, of_pod={}, refused={}),
    )  # fmt: skip


def a_holder(
    node: int, card: int, part: int, parts: int, chance: random.Random
) -> tuple[PotentialVictim, Grant]:
    """A pod that holds so much of a card."""
    name = f"p{node}-{card}-{part}"
    pod = Pod(
        metadata=ObjectMeta(name=name, namespace="other", uid=name),
        spec=a_spec(f"n{node}", chance.choice((0, 1, 2, 3, 9))),
    )
    victim = PotentialVictim(
        pod=pod, since=NOW - chance.uniform(10, 200_000), owner=f"o{node}", owner_kind="ReplicaSet"
    )
    share = Share(
        container="c", position=0, vendor=VENDOR, dialect=VENDOR, card=f"c{node}-{card}",
        index=card, memory_bytes=CARD_MIB * MIB // parts, cores_percent=100 / parts,
    )  # fmt: skip
    grant = Grant(uid=name, namespace="other", name=name, node=f"n{node}", shares=(share,))
    return victim, grant


def a_spec(node: str = "", priority: int = 5) -> PodSpec:
    """Of a pod with 4 CPUs."""
    container = Container(name="c", resources=Resources(requests={"cpu": "4"}))
    return PodSpec(containers=(container,), node_name=node, priority=priority)


def a_preemptor(name: str, count: int, mib: int, cores: float) -> Preemptor:
    """A pod that waits."""
    request = Request(
        vendor=VENDOR, dialect=VENDOR, count=count, memory_bytes=mib * MIB, cores_percent=cores
    )
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    pod = Pod(metadata=ObjectMeta(name=name, namespace="team", uid=name), spec=a_spec())
    asked = PodRequest(namespace="team", name=name, uid=name, containers=(container,))
    return Preemptor(members=(MemberRequest(pod, asked),), priority=5)


def a_gang(count: int, shape: tuple[int, int, float]) -> Preemptor:
    """Equal pods that start together."""
    each = (a_preemptor(f"member{n}", *shape) for n in range(count))
    return Preemptor(members=tuple(member for one in each for member in one.members), priority=5)


def answered(
    view: PreemptionView,
    preemptor: Preemptor,
    now: float,
    columns: VictimColumns,
    most_nodes: int = MOST_NODES,
) -> Timed:
    """One answer."""
    began = time.process_time()
    planner = PreemptionPlanner(view, now, columns=columns, most_nodes=most_nodes)
    work = planner.search(preemptor)
    slices = [(time.process_time() - began) * 1e3]
    while True:
        began = time.process_time()
        try:
            next(work)
        except StopIteration as e:
            slices.append((time.process_time() - began) * 1e3)
            found = e.value
            cost = found.cost if isinstance(found, Preemption) else None
            return Timed(cost, sum(slices), max(slices))
        slices.append((time.process_time() - began) * 1e3)


def times(
    full: Cluster,
    columns: VictimColumns,
    shape: tuple[int, int, float],
    answers: int,
    changed: int,
) -> Iterator[Timed]:
    """So many answers, a minute after each other."""
    for n in range(answers):
        preemptor = a_preemptor(f"high{n}", *shape)
        yield answered(full.change(changed), preemptor, NOW + 60 * n, columns)


def equal(view: PreemptionView, shape: tuple[int, int, float], answers: int) -> float:
    """The share of answers whose cost is that of a search on every node."""
    same, columns = 0, VictimColumns(view.rules)
    for n in range(answers):
        preemptor, now = a_preemptor(f"high{n}", *shape), NOW + 7200 * n
        everywhere = answered(view, preemptor, now, columns, len(view.ledger.fleet.names))
        same += answered(view, preemptor, now, columns).cost == everywhere.cost
    return same / answers


def main() -> None:
    """Print a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--gangs", type=int, default=5)
    parser.add_argument("--compared", type=int, default=100)
    parser.add_argument("--changed", type=int, default=50)
    options = parser.parse_args()
    full = Cluster(options.nodes, random.Random(42))
    small = Cluster(options.compared, random.Random(43)).view
    print(f"{options.nodes} nodes x {CARDS} cards, {len(full.view.bound)} pods, no card free; ms")
    columns = VictimColumns(full.view.rules)
    gc.collect()
    gc.freeze()  # collections of what was made so far are no part of an answer
    first = answered(full.change(0), a_preemptor("first", *SHAPES["a whole card"]), NOW, columns)
    print(f"the first answer: {first.total:.0f}, its longest slice {first.longest:.1f}\n")
    head = ("a pod asks for", "median", "p99", "longest slice", f"equal on {options.compared}")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for name, shape in SHAPES.items():
        found = list(times(full, columns, shape, options.answers, options.changed))
        totals = sorted(each.total for each in found)
        p99 = totals[min(len(totals) - 1, int(len(totals) * 0.99))]
        longest = max(each.longest for each in found)
        print(
            f"| {name} | {statistics.median(totals):.0f} | {p99:.0f} | {longest:.1f} "
            f"| {equal(small, shape, 5):.0%} |",
            flush=True,
        )
    whole = {name: a_gang(count, SHAPES[shape]) for name, (count, shape) in GANGS.items()}
    nobody = replace(a_preemptor("low", *SHAPES["a whole card"]), priority=0)
    print("\n| answers for | median | most | longest slice |\n|" + " --- |" * 4)
    for name, preemptor in {**whole, "a pod of the lowest priority": nobody}.items():
        some = [
            answered(full.change(options.changed), preemptor, NOW + 60 * n, columns)
            for n in range(options.gangs)
        ]
        totals, longest = [each.total for each in some], max(each.longest for each in some)
        print(
            f"| {name} | {statistics.median(totals):.0f} | {max(totals):.0f} | {longest:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
