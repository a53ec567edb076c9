"""Whatever happened between two pods, what is kept of the fleet answers as if it were worked out
now: nodes come, change and go, cards fill, fall ill and are pressed, quotas and blocks are set."""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.explain.node_reasons import NodeReasons
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import MOST_UNITS, ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB, Card, Siting
from tessera_schema.quotas import Limit
from tessera_schema.requests import (
    CardKey,
    ContainerRequest,
    NodeOrder,
    PodRequest,
    Policy,
    Request,
    Role,
)
from tessera_testing.builders import a_card

Step = Callable[[Ledger], object]
NODES = [f"n{i}" for i in range(9)]
VENDORS = ("acme", "other")

cards = st.builds(
    a_card,
    mib=st.sampled_from([4096, 8192, 8192, 8192, 0]),
    cores=st.sampled_from([100.0, 100.0, 100.0, 150.0, 0]),
    slots=st.sampled_from([1, 3, 9]),
    vendor=st.sampled_from(["acme", "acme", "acme", "other"]),
    model=st.sampled_from(["A100", "T4", ""]),
    mode=st.sampled_from([*[""] * 6, "mig", "soft"]),
    healthy=st.sampled_from([*[True] * 6, False]),
    cordoned=st.sampled_from([*[False] * 6, True]),
    numa=st.integers(0, 1),
)
requests = st.builds(
    Request,
    vendor=st.sampled_from([*["acme"] * 6, "other", "nobody"]),
    dialect=st.just("acme"),
    count=st.sampled_from([1, 1, 1, 2]),
    memory_bytes=st.sampled_from([0, 100 * MIB, 3000 * MIB]),
    memory_percent=st.sampled_from([0, 0, 30, 100]),
    cores_percent=st.sampled_from([0, 0, 0.1, 33.3, 100]),
    exclusive=st.sampled_from([False, False, False, True]),
    owns_whole_cores=st.booleans(),
    needs_free_cores=st.booleans(),
    together=st.booleans(),
    models=st.sampled_from([*[()] * 5, ("a1",), ("T4", "A")]),
    models_denied=st.sampled_from([*[()] * 5, ("t4",)]),
    modes=st.sampled_from([*[()] * 6, ("soft",)]),
    ids=st.sampled_from([*[()] * 5, ("n0-0", "n1-1", "n2-0")]),
    ids_denied=st.sampled_from([*[()] * 5, ("n1-1",)]),
    policy=st.builds(
        Policy,
        node=st.sampled_from(NodeOrder),
        cards=st.lists(st.sampled_from(CardKey), max_size=2).map(tuple),
        highest_index_first=st.booleans(),
        idle_cards_only=st.sampled_from([*[False] * 5, True]),
    ),
)
containers = st.lists(
    st.tuples(st.sampled_from([Role.APP, Role.APP, Role.INIT]), requests), min_size=1, max_size=3
)
alone = requests.map(lambda request: [(Role.APP, request)])
shapes = st.lists(st.one_of(alone, alone, containers), min_size=4, max_size=6)


def a_shape(spec: list[tuple[Role, Request]]) -> PodRequest:
    asked = tuple(
        ContainerRequest(container=f"c{n}", position=n, role=role, requests=(request,))
        for n, (role, request) in enumerate(spec)
    )
    return PodRequest(namespace="d", name="p", uid="u", containers=asked)


def a_pool(card: Card, node: int) -> Card:
    return replace(card, siting=Siting(pool="even" if node % 2 == 0 else "odd"))


@st.composite
def a_node(draw: st.DrawFn) -> Step:
    number = draw(st.integers(0, len(NODES) - 1))
    there = [
        replace(a_pool(card, number), id=f"n{number}-{i}", index=i)
        for i, card in enumerate(draw(st.lists(cards, min_size=1, max_size=4)))
    ]
    return lambda ledger: ledger.put_node(f"n{number}", there)


@st.composite
def a_limit(draw: st.DrawFn) -> Limit:
    return Limit(
        namespace="d", source="ResourceQuota d/q",
        vendor=draw(st.sampled_from(["", *VENDORS])),
        memory_bytes=draw(st.sampled_from([None, None, 6000 * MIB])),
        cores_percent=draw(st.sampled_from([None, None, 90])),
        cards=draw(st.sampled_from([None, None, 3])),
        models=draw(st.sampled_from([None, None, {"A100": 1.0, "T4": 0.5}])),
        node_pools=draw(st.sampled_from([(), (), ("even",)])),
    )  # fmt: skip


def presses(node: str, steps: list[int]) -> Step:
    pressures = {f"{node}-{i}": step for i, step in enumerate(steps) if step}
    return lambda ledger: ledger.fleet.set_pressure(node, pressures)


def silences(node: str, vendors: set[str]) -> Step:
    return lambda ledger: ledger.set_silent({node: frozenset(vendors)})


def of_nodes(act: Callable[[Ledger, str], object]) -> st.SearchStrategy[Step]:
    return st.sampled_from(NODES).map(lambda node: lambda ledger: act(ledger, node))


def nth_ends(ledger: Ledger, number: int) -> None:
    uids = [entry.grant.uid for entry in ledger.entries()]
    if uids:
        ledger.ended(uids[number % len(uids)])


steps = st.one_of(
    a_node(),
    of_nodes(lambda ledger, node: ledger.remove_node(node)),
    of_nodes(lambda ledger, node: ledger.block_node(node, f"strange-{node}", 0)),
    of_nodes(lambda ledger, node: ledger.ended(f"strange-{node}")),
    of_nodes(lambda ledger, _: ledger.fleet.snapshot()),
    st.integers(0, 50).map(lambda n: lambda ledger: nth_ends(ledger, n)),
    st.builds(silences, st.sampled_from(NODES), st.sets(st.sampled_from(VENDORS))),
    st.builds(presses, st.sampled_from(NODES), st.lists(st.sampled_from([0, 0, 6, 8]), max_size=4)),
    st.one_of(st.just([]), st.lists(a_limit(), max_size=2)).map(
        lambda limits: lambda ledger: ledger.set_limits(limits)
    ),
)
offers = st.one_of(st.none(), st.none(), st.lists(st.booleans(), min_size=64, max_size=64))
turns = st.lists(
    st.tuples(st.one_of(st.just([]), st.lists(steps, max_size=2)), st.integers(0, 50), offers),
    min_size=30,
    max_size=60,
)
filled = st.lists(a_node(), min_size=20, max_size=30)


class Placing:
    """A ledger, and a placer that remembers."""

    def __init__(self, packer: Packer | None = None) -> None:
        self.ledger = Ledger()
        self.screens = ScreenCache()
        self.placer = Placer(self.ledger.fleet, self.screens, packer)
        self.reasons = NodeReasons(self.ledger.fleet)

    def decide(self, pod: PodRequest, turn: int, candidates: np.ndarray | None = None) -> bool:
        """Whether it is placed."""
        decided = try_reserve(self.ledger, self.placer, pod, candidates, turn)
        return isinstance(decided, Reserved)


def check(placing: Placing, pod: PodRequest, candidates: np.ndarray | None) -> None:
    """A placer that remembers nothing answers the same, and nothing is placed on silent cards."""
    ledger, placer, fleet, wanted = placing.ledger, placing.placer, placing.ledger.fleet, units(pod)
    plain = Placer(fleet, packer=placer.packer)
    for allowance in (ledger.allowance("d"), NO_LIMITS):
        kept = placer.screened(wanted, allowance, candidates)
        for had, now in zip(kept, plain.screened(wanted, allowance, candidates), strict=True):
            assert np.array_equal(had, now)
        placed = placer.place(pod, allowance, candidates)
        assert placed == plain.place(pod, allowance, candidates)
        if isinstance(placed, Placement):
            vendors = {c.vendor for s in placed.shares if (c := fleet.card(placed.node, s.card))}
            assert vendors.isdisjoint(fleet.silent.get(placed.node, ()))
        refused = placing.reasons.codes(wanted, allowance)
        assert np.array_equal(refused, NodeReasons(fleet).codes(wanted, allowance))
    assert np.array_equal(placing.screens.usage(fleet), fleet.cards.usage())


@settings(max_examples=40, deadline=None)
@given(filled, shapes, turns, st.sampled_from([None, False, True]))
def test_pods_of_several_shapes_in_turn_are_answered_alike(
    start: list[Step],
    specs: list[list[tuple[Role, Request]]],
    story: list[tuple[list[Step], int, list[bool] | None]],
    by_default: bool | None,  # noqa: FBT001  (drawn)
) -> None:
    packer, pods = None if by_default is None else Packer(), [a_shape(spec) for spec in specs]
    if packer is not None:
        packer.by_default = bool(by_default)
    placing = Placing(packer)
    ledger = placing.ledger
    for step in start:
        step(ledger)
    for turn, (happened, number, offered) in enumerate(story):
        for step in happened:
            step(ledger)
        pod = replace(pods[number % len(pods)], uid=f"u{turn}")
        rows = len(ledger.fleet.names)
        candidates = None if offered is None else np.resize(np.array(offered), rows)
        check(placing, pod, candidates)
        if placing.decide(pod, turn, candidates) and turn % 3:
            ledger.binding_sent(pod.uid)
            ledger.resolve_binding(pod.uid, bound=turn % 3 == 1)


def a_plain_pod(mib: int, uid: str = "u") -> PodRequest:
    request = Request(vendor="acme", dialect="acme", memory_bytes=mib * MIB)
    return replace(a_shape([(Role.APP, request)]), uid=uid)


def test_more_shapes_than_are_cached_are_answered_alike() -> None:
    placing = Placing()
    ledger = placing.ledger
    for node in NODES:
        ledger.put_node(node, [a_card(f"{node}-{i}", i, mib=4096) for i in range(2)])
    for turn in range(3 * MOST_UNITS):
        pod = a_plain_pod(100 + turn % (MOST_UNITS + 3), f"u{turn}")
        check(placing, pod, None)
        placing.decide(pod, turn)


def test_a_very_long_time_without_changes_of_nodes_is_answered_alike() -> None:
    placing = Placing()
    ledger = placing.ledger
    for node in NODES:
        ledger.put_node(node, [a_card(f"{node}-{i}", i, mib=4096) for i in range(2)])
    small, large = a_plain_pod(1000), a_plain_pod(3000)
    before = ledger.fleet.changes
    for turn in range(2_500):
        pod = replace(small, uid=f"u{turn}")
        placing.decide(pod, turn)
        if turn >= 20:
            ledger.ended(f"u{turn - 20}")
        if turn % 97 == 0:
            check(placing, large, None)
    assert ledger.fleet.changes is not before
    check(placing, small, None)


def test_a_card_whose_cores_are_all_promised_is_left_out_as_soon_as_they_are() -> None:
    placing = Placing()
    ledger = placing.ledger
    ledger.put_node("n0", [a_card("n0-0", 0, mib=4096)])
    free = a_shape([(Role.APP, Request(vendor="acme", dialect="acme", memory_bytes=MIB))])
    full = a_shape(
        [(Role.APP, Request(vendor="acme", dialect="acme", memory_bytes=MIB, cores_percent=100))]
    )
    check(placing, free, None)
    assert placing.decide(replace(full, uid="full"), 0)
    check(placing, free, None)
    assert not placing.decide(free, 0)
    ledger.ended("full")
    check(placing, free, None)
    assert placing.decide(free, 0)
