"""Fleets and pods drawn at random: several sizes and vendors, cards partly blocked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import nodes
from tessera_core.placement.units import units
from tessera_core.quota.allowance import Allowance
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card

GIB = 1024 * MIB
FREE = Allowance((), {})

cards = st.builds(
    a_card,
    mib=st.sampled_from([8192, 16384, 24576]),
    slots=st.sampled_from([1, 3, 10, 100]),
    vendor=st.sampled_from(["acme", "acme", "other"]),
    model=st.sampled_from(["big", "small"]),
    healthy=st.sampled_from([True, True, True, False]),
    cordoned=st.sampled_from([False, False, False, True]),
)
held = st.builds(
    Charge,
    memory_bytes=st.sampled_from([0, 2 * GIB, 4 * GIB, 8 * GIB]),
    cores_milli=st.sampled_from([0, 30_000, 100_000]),
    slots=st.integers(0, 2),
    exclusive=st.sampled_from([0, 0, 0, 1]),
)
nodes_of = st.lists(
    st.lists(st.tuples(cards, held), min_size=1, max_size=4), min_size=1, max_size=6
)
requests = st.builds(
    Request,
    vendor=st.sampled_from(["acme", "acme", "other", "nobody"]),
    dialect=st.just("acme"),
    count=st.integers(1, 3),
    memory_bytes=st.sampled_from([0, GIB, 3 * GIB, 10 * GIB]),
    memory_percent=st.sampled_from([0, 30, 50, 100]),
    cores_percent=st.sampled_from([0, 25, 50, 100]),
    exclusive=st.sampled_from([False, False, True]),
    needs_free_cores=st.booleans(),
    models=st.sampled_from([(), (), ("big",), ("small",)]),
    ids=st.sampled_from([(), (), ("card-0",)]),
)


def a_fleet(spec: Sequence[Sequence[tuple[Card, Charge]]]) -> Fleet:
    fleet = Fleet()
    for n, node in enumerate(spec):
        put(fleet, f"node-{n}", node)
    return fleet


def put(fleet: Fleet, name: str, node: Sequence[tuple[Card, Charge]]) -> None:
    named = [
        a_card(
            f"card-{i}", i, mib=card.memory_mib, slots=card.slots, vendor=card.vendor,
            model=card.model, healthy=card.healthy, cordoned=card.cordoned,
        )
        for i, (card, _) in enumerate(node)
    ]  # fmt: skip
    fleet.put(name, named)
    for i, (_, held_there) in enumerate(node):
        if held_there.slots:
            fleet.charge(name, f"card-{i}", held_there)


def a_pod(*wanted: Request, cpu_milli: int = 0, memory_bytes: int = 0) -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=Role.APP, requests=(request,))
        for i, request in enumerate(wanted)
    )
    return PodRequest(
        namespace="default", name="pod", uid="uid", containers=containers, cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
    )  # fmt: skip


def place(
    fleet: Fleet, pod: PodRequest, state: PackingState
) -> tuple[str, tuple[Share, ...]] | None:
    """What placement does with the order of `pack`."""
    wanted = units(pod)
    columns = ordering.keys(fleet, wanted[0].lead, state)
    left = np.array(sorted(fleet.rows.values()))
    while len(left):
        row = nodes.best(left, columns)
        fitted = Placer(fleet).fit(row, wanted, FREE)
        if not isinstance(fitted, NoFit):
            return fleet.names[row], fitted
        left = left[left != row]
    return None


def charge(fleet: Fleet, node: str, shares: Sequence[Share], sign: int = 1) -> None:
    for card, cost in charges(shares).items():
        fleet.charge(node, card, cost, sign)
