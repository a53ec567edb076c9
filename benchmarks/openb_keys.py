"""What the order of `pack` costs a filter call, on a fleet of 5,000 nodes of 8 cards, half full.

    python benchmarks/openb_keys.py [--nodes 5000] [--calls 2000]

Prints milliseconds: the first time a shape comes, later times (a few nodes changed in between), and
learning from a history of a hundred shapes, which is never in the path of a filter.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.state import PackingState
from tessera_schema.cards import MIB, Card
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role

CARDS = 8
SIZES_MIB = (81920, 24576)


def a_fleet(nodes: int, rng: random.Random) -> Fleet:
    """Two sizes of cards; half of all memory is in use."""
    fleet = Fleet()
    for n in range(nodes):
        mib = SIZES_MIB[n % 2]
        name = f"node-{n:05}"
        cards = [
            Card(id=f"{name}-{i}", index=i, vendor="acme", model=str(mib), memory_bytes=mib * MIB,
                 slots=10)
            for i in range(CARDS)
        ]  # fmt: skip
        fleet.put(name, cards)
        for card in cards:
            tenths = rng.randrange(11)
            for _ in range(tenths > 0):
                fleet.charge(name, card.id, Charge(mib * MIB * tenths // 10, milli(10 * tenths), 1))
    return fleet


def shapes(rng: random.Random) -> list[Request]:
    """A hundred: parts of cards in memory and cores, and whole cards."""
    whole = [
        Request(vendor="acme", dialect="x", count=n, memory_percent=100, exclusive=True)
        for n in (1, 2, 4, 8)
    ]
    shares = [
        Request(vendor="acme", dialect="x", memory_bytes=rng.randrange(1, 40) * 1024 * MIB,
                cores_percent=5 * rng.randrange(20))
        for _ in range(96)
    ]  # fmt: skip
    return whole + shares


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=2000)
    args = parser.parse_args()
    rng = random.Random(7)
    fleet, asked, state, history = a_fleet(args.nodes, rng), shapes(rng), PackingState(), History()
    for request in asked:
        container = ContainerRequest(
            container="c", position=0, role=Role.APP, requests=(request,)
        )  # fmt: skip
        history.add(PodRequest(namespace="n", name="p", uid="u", containers=(container,)), 0)
    began = time.perf_counter()
    lesson = state.lesson(fleet, history, 0)
    quick = time.perf_counter()
    state.adopt(learn(*lesson))
    learned = time.perf_counter()
    print(f"lesson {1000 * (quick - began):.0f} ms, learning {learned - quick:.2f} s")
    first: list[float] = []
    later: list[float] = []
    names = list(fleet.rows)
    for call in range(args.calls):
        request = asked[call % len(asked)]
        start = time.perf_counter()
        ordering.keys(fleet, request, state)
        spent = 1000 * (time.perf_counter() - start)
        (first if call < len(asked) else later).append(spent)
        for name in rng.sample(names, 2):
            card = rng.choice(fleet.facts[fleet.rows[name]])
            fleet.charge(name, card.id, Charge(MIB, 0, 1), rng.choice((1, -1)))
    for what, values in (("first time of a shape", first), ("later", later)):
        values.sort()
        p50, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
        print(f"{what}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")


if __name__ == "__main__":
    main()
