"""The search for a gang's cards against its budget: 10, 60 and 400 ms for 8, 64 and 512 members on
5,000 nodes x 8 cards, no slice over 10 ms. Random pods hold parts of cards.

Times are of the process, so that other work of the machine does not count. The slice with the
answer also takes the cards, in one transaction; it has a column of its own.

    .venv/bin/python benchmarks/gang_search.py [--nodes 5000] [--held 20000]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.card_nodes import CARDS, VENDOR, put_nodes
from tessera_core.gangs.reservation import (
    STEPS_OF_A_SLICE,
    GangReservation,
    GangReserved,
    GangUnschedulable,
)
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
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

SIZES = (8, 64, 512)
SHAPES = {
    "a part of a card": (1, 8000, 30.0),
    "8 parts": (8, 8000, 30.0),
    "a whole card": (1, 81920, 100.0),
}


class Timed(Struct, frozen=True):
    """One search, in milliseconds."""

    answer: GangReserved | GangUnschedulable
    slices: tuple[float, ...]


def cluster(nodes: int, held: int) -> tuple[Ledger, KubeSchedulerFilters]:
    """Nodes of 8 cards, and pods that hold a quarter of a card each."""
    ledger, chance = Ledger(), random.Random(42)
    amounts: dict[str, Quantity] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    objects = [
        Node(metadata=ObjectMeta(name=f"n{n}"), status=NodeStatus(allocatable=amounts))
        for n in range(nodes)
    ]
    put_nodes(ledger, nodes)
    for number in range(held):
        n, i = chance.randrange(nodes), chance.randrange(CARDS)
        share = Share(
            container="c", position=0, vendor=VENDOR, dialect=VENDOR, card=f"c{n}-{i}", index=i,
            memory_bytes=20000 * MIB, cores_percent=25,
        )  # fmt: skip
        name = f"held-{number}"
        ledger.assume(
            [Grant(uid=name, namespace="other", name=name, node=f"n{n}", shares=(share,))], 0
        )
    return ledger, KubeSchedulerFilters(objects)


def gang(name: str, size: int, count: int, mib: int, cores: float) -> list[MemberRequest]:
    """So many members of one shape."""
    request = Request(
        vendor=VENDOR, dialect=VENDOR, count=count, memory_bytes=mib * MIB, cores_percent=cores
    )
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    spec = PodSpec(containers=(Container(name="c", resources=Resources(requests={"cpu": "4"})),))
    members = []
    for number in range(size):
        uid = f"{name}-{size}-{number}"
        pod = Pod(metadata=ObjectMeta(name=uid, namespace="team", uid=uid), spec=spec)
        asked = PodRequest(namespace="team", name=uid, uid=uid, containers=(container,))
        members.append(MemberRequest(pod, asked))
    return members


def timed(ledger: Ledger, filters: KubeSchedulerFilters, members: Sequence[MemberRequest]) -> Timed:
    """One search; what it took is given back."""
    search = GangReservation(ledger, filters, members)
    slices, answer = [], None
    while answer is None:
        began = time.process_time()
        answer = search.advance(STEPS_OF_A_SLICE, 0)
        slices.append((time.process_time() - began) * 1e3)
    for member in members:
        ledger.forget(member.pod.metadata.uid)
    return Timed(answer, tuple(slices))


def main() -> None:
    """Print a row for each shape and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--held", type=int, default=20000)
    options = parser.parse_args()
    ledger, filters = cluster(options.nodes, options.held)
    print(f"{options.nodes} nodes x {CARDS} cards, {options.held} parts of cards held")
    head = ("a member asks for", "members", "placed", "ms", "slices", "longest", "the answer's")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for name, (count, mib, cores) in SHAPES.items():
        for size in SIZES:
            found = timed(ledger, filters, gang(name, size, count, mib, cores))
            placed = isinstance(found.answer, GangReserved)
            print(
                f"| {name} | {size} | {'yes' if placed else 'no'} | {sum(found.slices):.1f} "
                f"| {len(found.slices)} | {max(found.slices[:-1], default=0):.1f} "
                f"| {found.slices[-1]:.1f} |"
            )


if __name__ == "__main__":
    main()
