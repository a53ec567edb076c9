"""What is kept equals what is computed afresh, and is the growth of the potential."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.arrays import Floats, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.placement.packing.demand_history import DemandedShape, History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.loss_cache import LossCache
from tessera_core.placement.packing.potential import losses, potential
from tessera_core.placement.packing.state import PackingState
from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tessera_schema.requests import Request
from tests.packing.fleets import a_fleet, a_pod, charge, nodes_of, place, put, requests

Node = list[tuple[Card, Charge]]

steps = st.one_of(
    st.tuples(st.just("place"), requests),
    st.tuples(st.just("leave"), st.integers(0, 99)),
    st.tuples(st.just("node"), st.tuples(st.integers(0, 7), nodes_of)),
    st.tuples(st.just("block"), st.integers(0, 7)),
)


class ChangingFleet:
    """A fleet that changes, and the pods that were placed on it."""

    def __init__(self, spec: list[Node], state: PackingState) -> None:
        self.fleet, self.state = a_fleet(spec), state
        self.here: list[tuple[str, tuple[Share, ...]]] = []

    def change(self, kind: str, what: Any) -> None:
        if kind == "place":
            answer = place(self.fleet, a_pod(what), self.state)
            if answer is not None:
                charge(self.fleet, *answer)
                self.here.append(answer)
        elif kind == "leave" and self.here:
            charge(self.fleet, *self.here.pop(what % len(self.here)), sign=-1)
        elif kind == "node":
            name = f"node-{what[0]}"
            self.here = [pod for pod in self.here if pod[0] != name]
            put(self.fleet, name, what[1][0])
        elif kind == "block":
            self.fleet.blocked[what % len(self.fleet.names)] ^= True


@settings(max_examples=80, deadline=None)
@given(
    spec=nodes_of,
    changes=st.lists(steps, max_size=15),
    shapes=st.lists(requests, min_size=1, max_size=4),
    reserve=st.booleans(),
)
def test_deltas_maintained_through_any_changes_equal_deltas_computed_afresh(
    spec: list[Node], changes: list[tuple[str, Any]], shapes: list[Request], *, reserve: bool
) -> None:
    world = ChangingFleet(spec, PackingState(reserve=reserve))
    history, kept = History(), world.state
    for request in shapes * 20:
        history.add(a_pod(request), 0)
    kept.adopt(learn(*kept.lesson(world.fleet, history, 0)))
    for change in changes:
        world.change(*change)
        for request in shapes:
            kept.follow(world.fleet)
            found = kept.steps(world.fleet, DemandedShape(request))
            afresh = kept.apart()
            afresh.follow(world.fleet)
            assert np.array_equal(found, afresh.steps(world.fleet, DemandedShape(request)))


@given(st.lists(st.one_of(st.integers(0, 4), st.sampled_from("abc")), max_size=60))
def test_a_shape_is_notified_of_every_change(actions: list[int | str]) -> None:
    """Numbers change a row, letters ask for a shape; few shapes are kept, so some start afresh."""
    truth, kept = np.zeros(5), LossCache(5, shapes=2)

    def compute(at: Ints | None) -> tuple[Floats, Ints]:
        return (truth.copy(), np.zeros(5, int)) if at is None else (truth[at], at * 0)

    for action in actions:
        if isinstance(action, int):
            truth[action] += 1
            kept.changed(action)
        else:
            assert kept.losses_for(action, compute).steps.tolist() == truth.tolist()


@settings(max_examples=60, deadline=None)
@given(nodes_of, requests)
def test_a_loss_is_the_growth_of_the_potential(spec: list[Node], request: Request) -> None:
    fleet, state = a_fleet(spec), PackingState()
    answer = place(fleet, a_pod(request), state)
    if answer is None or request.ids:
        return
    row = fleet.rows[answer[0]]
    only = np.array([row])
    rows, ask, forecast = (
        state.rows(only),
        state.demand_shape(fleet, DemandedShape(request)),
        state.forecast,
    )
    found = losses(rows, ask, forecast)
    before = potential(rows, forecast)
    by_id = {c.id: i for i, c in enumerate(fleet.facts[row])}
    cards = {by_id[share.card] for share in answer[1]}
    charge(fleet, *answer)
    state.follow(fleet)
    after = potential(state.rows(only), forecast)
    if cards == set(found.cards[0].tolist()):
        assert np.allclose(after - before, found.node)
