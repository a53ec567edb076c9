"""Nodes that take a pod for certain are those that a fit finds, and the others are fitted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.lent_memory import set_lending
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS, Allowance, QuotaUsage
from tessera_core.scheduling.preemption import nodes_made_feasible
from tessera_core.scheduling.prioritize import FeasibleNodes, feasible_nodes
from tessera_schema.cards import MIB, Card, Partition, Siting
from tessera_schema.quotas import BestEffortLimit, Limit
from tessera_schema.requests import (
    CardKey,
    Choice,
    ContainerRequest,
    Grouping,
    PodRequest,
    Policy,
    Request,
    Role,
    Scope,
)
from tessera_testing.builders import a_card

VENDORS = ("acme", "acme", "acme", "other")
held = st.builds(
    Charge,
    memory_bytes=st.sampled_from([0, 1000 * MIB, 4096 * MIB]),
    cores_milli=st.sampled_from([0, 30_000, 100_000]),
    slots=st.integers(0, 2),
    exclusive=st.sampled_from([0, 0, 0, 1]),
    lent_bytes=st.sampled_from([0, 0, 3000 * MIB]),
    lent_slots=st.integers(0, 1),
)
sitings = st.sampled_from(
    [
        None,
        Siting(labels={"tier": "fast"}),
        Siting(partitions=(Partition(minors=(0, 1)),), partitioned=True),
    ]
)
facts = st.fixed_dictionaries(
    {
        "mib": st.sampled_from([4096, 8192, 16384]),
        "physical_bytes": st.sampled_from([0, 0, 3001 * MIB]),
        "slots": st.integers(1, 4),
        "vendor": st.sampled_from(VENDORS),
        "model": st.sampled_from(["A100", "T4", ""]),
        "numa": st.integers(0, 1),
        "switch": st.sampled_from(["s0", "s1", "s1", ""]),
        "links": st.dictionaries(st.sampled_from(["card-0", "card-1"]), st.integers(-1, 9)),
    }
)
nodes = st.lists(
    st.tuples(
        st.lists(st.tuples(facts, held), min_size=1, max_size=5), sitings,
        st.sampled_from(["", "", "gold"]),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
Nodes = list[tuple[list[tuple[dict[str, Any], Charge]], Siting | None, str]]
policies = st.builds(
    Policy,
    cards=st.lists(st.sampled_from(CardKey), max_size=2).map(tuple),
    choice=st.sampled_from(Choice),
    same_numa=st.booleans(),
    idle_cards_only=st.sampled_from([False, False, True]),
    scope=st.sampled_from([Scope.NODE, Scope.NODE, Scope.NODE, *Scope]),
    grouping=st.sampled_from([None, None, Grouping()]),
)
requests = st.builds(
    Request,
    vendor=st.sampled_from(VENDORS),
    dialect=st.sampled_from(["acme", "acme", "other"]),
    count=st.integers(1, 2),
    memory_bytes=st.sampled_from([0, 100 * MIB, 3000 * MIB, 5000 * MIB]),
    memory_percent=st.sampled_from([0, 30, 100]),
    cores_percent=st.sampled_from([0, 10, 60, 100]),
    equal_parts=st.sampled_from([None, None, None, 0, 3]),
    best_effort=st.sampled_from([False, False, True]),
    exclusive=st.sampled_from([False, False, False, True]),
    guaranteed=st.booleans(),
    owns_whole_cores=st.booleans(),
    needs_free_cores=st.booleans(),
    together=st.sampled_from([False, False, True]),
    policy=policies,
).filter(
    lambda r: r.exclusive or r.equal_parts is not None or r.memory_bytes > 0 or r.memory_percent > 0
)  # a share of no memory is none: no dialect makes one
roles = st.sampled_from([Role.APP, Role.APP, *Role])
pods = st.lists(st.tuples(roles, requests), min_size=1, max_size=3)
Asked = list[tuple[Role, Request]]
limits = st.lists(
    st.builds(
        Limit,
        namespace=st.just("team"),
        source=st.just("q"),
        vendor=st.sampled_from(["", "acme"]),
        memory_bytes=st.sampled_from([None, 4000 * MIB, 8000 * MIB, 40_000 * MIB]),
        cores_percent=st.sampled_from([None, None, 60.0, 200.0]),
        cards=st.sampled_from([None, None, 2, 9]),
        models=st.sampled_from([None, None, {"A100": 9.0}, {"A": 1.0, "T4": 0.5}, {"": 9.0}]),
        open_models=st.booleans(),
        node_pools=st.sampled_from([(), (), ("gold",)]),
        best_effort=st.sampled_from(
            [None, None, BestEffortLimit(memory_bytes=6000 * MIB, cards=2)]
        ),
    ),
    max_size=2,
)  # fmt: skip
uses = st.dictionaries(
    st.tuples(st.sampled_from(VENDORS), st.sampled_from(["A100", "T4"])),
    st.builds(
        QuotaUsage, st.just(1000 * MIB), st.just(30_000), st.integers(0, 3),
        st.sampled_from([0.0, 0.5]),
    ),
    max_size=2,
)  # fmt: skip


def a_ledger(spec: Nodes) -> Ledger:
    ledger = Ledger()
    for n, (cards, siting, pool) in enumerate(spec):
        there = [a_sited_card(i, each, siting, pool) for i, (each, _) in enumerate(cards)]
        ledger.put_node(f"n{n}", there)
        for card, (_, charge) in zip(there, cards, strict=True):
            if charge.slots:
                ledger.fleet.charge(f"n{n}", card.id, charge)
        unused = {card.id: 500 * MIB for card, (_, c) in zip(there, cards, strict=True) if c.slots}
        set_lending(ledger.fleet, f"n{n}", unused)
    return ledger


def a_sited_card(i: int, each: dict[str, Any], siting: Siting | None, pool: str) -> Card:
    if pool:
        siting = Siting(labels=siting.labels if siting else {}, pool=pool)
    return a_card(f"card-{i}", i, siting=siting, **each)


def a_pod(asked: Asked) -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=role, requests=(request,))
        for i, (role, request) in enumerate(asked)
    )
    return PodRequest(namespace="team", name="p", uid="p", containers=containers)


def fitting(placer: Placer, pod: PodRequest, allowance: Allowance) -> set[str]:
    """The nodes that a fit of each of them finds."""
    fleet, wanted = placer.fleet, units(pod)
    fits = {node: placer.fit(row, wanted, allowance) for node, row in fleet.rows.items()}
    return {node for node, shares in fits.items() if not isinstance(shares, NoFit)}


@settings(max_examples=250, deadline=None)
@given(nodes, pods, limits, uses)
def test_a_node_that_takes_a_pod_for_certain_fits(
    spec: Nodes, asked: Asked, bounds: list[Limit], used: dict[tuple[str, str], QuotaUsage]
) -> None:
    fleet, pod, allowance = a_ledger(spec).fleet, a_pod(asked), Allowance(bounds, used)
    for placer in (Placer(fleet), Placer(fleet, ScreenCache())):
        left, certain = placer.sifted(units(pod), allowance, None)
        assert np.array_equal(left, placer.screen(units(pod), allowance, None))
        assert {fleet.names[row] for row in np.flatnonzero(certain)} <= fitting(
            placer, pod, allowance
        )


@settings(max_examples=60, deadline=None)
@given(nodes, pods, limits)
def test_what_is_answered_is_what_a_fit_of_each_node_finds(
    spec: Nodes, asked: Asked, bounds: list[Limit]
) -> None:
    ledger, pod = a_ledger(spec), a_pod(asked)
    victims = {node: list[str]() for node in ledger.fleet.rows}
    placer = Placer(ledger.fleet)
    assert nodes_made_feasible(ledger, pod, victims) == fitting(placer, pod, NO_LIMITS)
    ledger.set_limits(bounds)
    found = feasible_nodes(ledger, placer, pod, ledger.fleet.only(*ledger.fleet.rows))
    names = found.names if isinstance(found, FeasibleNodes) else ()
    assert set(names) == fitting(placer, pod, ledger.allowance("team"))
    assert len(set(names)) == len(names)


EIGHT = a_ledger([([({"slots": 4, "numa": i // 4}, Charge()) for i in range(8)], None, "")] * 3)
GROUPED = a_ledger(
    [([({}, Charge())] * 4, Siting(partitions=(Partition(minors=(0, 1)),), partitioned=True), "")]
)
SMALL: dict[str, Any] = {"memory_bytes": 3000 * MIB}
WHOLE: dict[str, Any] = {"exclusive": True}


@pytest.mark.parametrize(
    ("ledger", "asked", "policy", "memory_limit", "all_certain"),
    [
        (EIGHT, [SMALL], Policy(), None, True),
        (EIGHT, [SMALL, SMALL, SMALL], Policy(), None, True),
        (EIGHT, [{**SMALL, "count": 8}, SMALL], Policy(), None, False),
        (EIGHT, [{**SMALL, "count": 4}], Policy(same_numa=True), None, True),
        (EIGHT, [{**SMALL, "count": 2}], Policy(choice=Choice.LINKS), None, True),
        (EIGHT, [{**WHOLE, "count": 2}], Policy(choice=Choice.TREE), None, True),
        (EIGHT, [SMALL], Policy(choice=Choice.SCOPES), None, True),
        (EIGHT, [SMALL], Policy(choice=Choice.SCOPES, scope=Scope.NUMA), None, False),
        (GROUPED, [{**WHOLE, "count": 3}], Policy(choice=Choice.SCOPES), None, False),
        (EIGHT, [SMALL], Policy(), 9000, True),
        (EIGHT, [{"memory_percent": 100}], Policy(), 9000, False),
        (EIGHT, [SMALL, SMALL, SMALL], Policy(), 8000, False),
    ],
)
def test_most_pods_need_no_fit(
    ledger: Ledger,
    asked: list[dict[str, Any]],
    policy: Policy,
    memory_limit: int | None,
    all_certain: bool,  # noqa: FBT001  (a column)
) -> None:
    pod = a_pod(
        [
            (Role.APP, Request(vendor="acme", dialect="acme", policy=policy, **each))
            for each in asked
        ]
    )
    bounds = (
        [] if memory_limit is None
        else [Limit(namespace="team", source="q", memory_bytes=memory_limit * MIB)]
    )  # fmt: skip
    left, certain = Placer(ledger.fleet).sifted(units(pod), Allowance(bounds, {}), None)
    assert certain.any() == all_certain
    assert not all_certain or np.array_equal(left, certain)


def test_a_node_that_is_not_certain_is_fitted() -> None:
    """Of its four cards only two may be taken together, and three are asked for."""
    three = Request(
        vendor="acme", dialect="acme", count=3, exclusive=True,
        policy=Policy(choice=Choice.SCOPES),
    )  # fmt: skip
    pod, everywhere = a_pod([(Role.APP, three)]), GROUPED.fleet.only("n0")
    assert GROUPED.fleet.only("n0").any()
    found = feasible_nodes(GROUPED, Placer(GROUPED.fleet), pod, everywhere)
    assert not isinstance(found, FeasibleNodes)
