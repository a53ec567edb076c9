"""The order prefers, it never refuses; and equal inputs give equal answers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.fleet.charges import Charge
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_schema.cards import Card
from tessera_schema.requests import Request
from tests.packing.fleets import FREE, a_fleet, a_pod, charge, nodes_of, place, put, requests

Spec = list[list[tuple[Card, Charge]]]


@settings(max_examples=150, deadline=None)
@given(spec=nodes_of, wanted=st.lists(requests, min_size=1, max_size=2), reserve=st.booleans())
def test_a_pod_that_fits_somewhere_is_always_placed(
    spec: Spec, wanted: list[Request], *, reserve: bool
) -> None:
    fleet, pod = a_fleet(spec), a_pod(*wanted)
    rows = range(len(fleet.names))
    somewhere = any(not isinstance(Placer(fleet).fit(r, units(pod), FREE), NoFit) for r in rows)
    assert (place(fleet, pod, PackingState(reserve=reserve)) is not None) == somewhere


@settings(max_examples=60, deadline=None)
@given(nodes_of, st.lists(requests, min_size=1, max_size=12))
def test_equal_inputs_give_equal_answers(spec: Spec, wanted: list[Request]) -> None:
    """Also where nodes came in another order, and after a restart."""
    history = History()
    for request in wanted * 10:
        history.add(a_pod(request), 0)
    one, other = a_fleet(spec), a_fleet([])
    names = [f"node-{n}" for n in range(len(spec))]
    for name in reversed(names):
        put(other, name, spec[int(name.removeprefix("node-"))])
    first, second = PackingState(), PackingState()
    first.adopt(learn(*first.lesson(one, history, 0)))
    history = History.decode(history.encode(0))
    second.adopt(learn(*second.lesson(other, history, 0)))
    for request in wanted:
        pod = a_pod(request)
        answer = place(one, pod, first)
        assert answer == place(other, pod, second)
        if answer is not None:
            charge(one, *answer)
            charge(other, *answer)


def test_a_request_of_a_vendor_nobody_has_is_no_error() -> None:
    fleet = a_fleet([])
    assert place(fleet, a_pod(Request(vendor="nobody", dialect="x")), PackingState()) is None
