"""The screen over all cards and the fit of one node are two ways of asking the same question."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import set_lending
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import Allowance
from tessera_schema.cards import MIB, Card
from tessera_schema.requests import (
    CardKey,
    ContainerRequest,
    ModelSizes,
    NodeOrder,
    PodRequest,
    Policy,
    Request,
    Role,
)
from tessera_testing.builders import a_card

FREE = Allowance((), {})
SIZES = (ModelSizes("T4", (1000 * MIB, 4000 * MIB)), ModelSizes("a1", (500 * MIB, 6000 * MIB)))

cards = st.builds(
    a_card,
    mib=st.sampled_from([4096, 8192, 16384]),
    physical_bytes=st.sampled_from([0, 0, 3001 * MIB, 8000 * MIB, 20_000 * MIB]),
    cores=st.sampled_from([100.0, 150.0]),
    slots=st.integers(1, 4),
    model=st.sampled_from(["A100", "T4", ""]),
    mode=st.sampled_from(["", "", "mig", "soft"]),
    healthy=st.sampled_from([True, True, True, False]),
    cordoned=st.sampled_from([False, False, False, True]),
    numa=st.integers(0, 1),
)
held = st.builds(
    Charge,
    memory_bytes=st.sampled_from([0, 1000 * MIB, 4096 * MIB]),
    cores_milli=st.sampled_from([0, 30_000, 100_000]),
    slots=st.integers(0, 3),
    exclusive=st.sampled_from([0, 0, 0, 1]),
    resident_bytes=st.sampled_from([0, 700 * MIB, 3000 * MIB]),
    lent_bytes=st.sampled_from([0, 0, 3000 * MIB]),
    lent_slots=st.integers(0, 2),
)
requests = st.builds(
    Request,
    vendor=st.just("acme"),
    dialect=st.just("acme"),
    count=st.integers(1, 3),
    memory_bytes=st.sampled_from([0, 100 * MIB, 5000 * MIB]),
    memory_percent=st.sampled_from([0, 30, 100]),
    memory_sizes=st.sampled_from([(), (), SIZES]),
    cores_percent=st.sampled_from([0, 30, 100]),
    best_effort=st.booleans(),
    exclusive=st.booleans(),
    guaranteed=st.booleans(),
    owns_whole_cores=st.booleans(),
    needs_free_cores=st.booleans(),
    models=st.sampled_from([(), ("a1",), ("T4", "A")]),
    models_denied=st.sampled_from([(), ("t4",)]),
    modes=st.sampled_from([(), ("soft",)]),
    ids=st.sampled_from([(), ("card-0", "card-1")]),
    ids_denied=st.sampled_from([(), ("card-1",)]),
    policy=st.builds(
        Policy,
        node=st.sampled_from(NodeOrder),
        cards=st.lists(st.sampled_from(CardKey), max_size=3).map(tuple),
        highest_index_first=st.booleans(),
        idle_cards_only=st.booleans(),
    ),
)
nodes = st.lists(st.lists(st.tuples(cards, held), min_size=1, max_size=4), min_size=1, max_size=6)


def a_fleet(spec: list[list[tuple[Card, Charge]]]) -> Fleet:
    fleet = Fleet()
    for n, node in enumerate(spec):
        named = [
            (
                a_card(
                    f"card-{i}", i, mib=card.memory_mib, cores=card.cores_percent,
                    slots=card.slots, model=card.model, mode=card.mode, healthy=card.healthy,
                    cordoned=card.cordoned, numa=card.numa,
                    physical_bytes=card.physical_bytes,
                ),
                charge,
            )
            for i, (card, charge) in enumerate(node)
        ]  # fmt: skip
        fleet.put(f"n{n}", [card for card, _ in named])
        for card, charge in named:
            if charge.slots:
                fleet.charge(f"n{n}", card.id, charge)
        unused = {card.id: charge.memory_bytes // 2 for card, charge in named if charge.lent_bytes}
        set_lending(fleet, f"n{n}", unused)
    return fleet


def a_request(request: Request) -> PodRequest:
    container = ContainerRequest(container="c", position=0, role=Role.APP, requests=(request,))
    return PodRequest(namespace="d", name="p", uid="u", containers=(container,))


@settings(max_examples=300, deadline=None)
@given(nodes, requests)
def test_a_node_passes_the_screen_exactly_when_it_fits(
    spec: list[list[tuple[Card, Charge]]], request: Request
) -> None:
    fleet, wanted = a_fleet(spec), units(a_request(request))
    passed = Placer(fleet).screen(wanted, FREE, None)
    for row in fleet.rows.values():
        assert passed[row] == (not isinstance(Placer(fleet).fit(row, wanted, FREE), NoFit))


@settings(max_examples=200, deadline=None)
@given(nodes, requests)
def test_a_pod_that_fits_somewhere_is_placed_and_equal_inputs_give_equal_answers(
    spec: list[list[tuple[Card, Charge]]], request: Request
) -> None:
    fleet, pod = a_fleet(spec), a_request(request)
    found = Placer(fleet).place(pod, FREE)
    fits = any(
        not isinstance(Placer(fleet).fit(row, units(pod), FREE), NoFit)
        for row in fleet.rows.values()
    )
    assert isinstance(found, Placement) == fits
    assert Placer(a_fleet(spec)).place(pod, FREE) == found


@given(nodes)
def test_a_snapshot_does_not_change_with_the_fleet(spec: list[list[tuple[Card, Charge]]]) -> None:
    fleet = a_fleet(spec)
    copy = fleet.snapshot()
    before = copy.cards.memory_used.copy()
    fleet.charge("n0", "card-0", Charge(1, 1, 1, 0))
    fleet.put("new", [a_card()])
    assert np.array_equal(copy.cards.memory_used, before)
    assert "new" not in copy.rows
