"""From bytes to bytes: which pods the filter packs, and what holds whatever comes and goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.packer import MOST_NAMED, Packer
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest
from tessera_testing.builders import a_card

REGISTRY = load()
NV = "nvidia.com/"
MIB = 10_000

_answer = msgspec.json.Decoder(ExtenderFilterResult).decode
Json = dict[str, Any]


def a_pod(uid: str, limits: Mapping[str, object], **annotations: str) -> Json:
    resources = {"limits": {name: str(value) for name, value in limits.items()}}
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def share(percent: int) -> Mapping[str, object]:
    return {NV + "gpu": 1, NV + "gpumem": MIB * percent // 100}


def read(pod: Json) -> PodRequest:
    admission = admit(REGISTRY, msgspec.convert(pod, Pod))
    assert isinstance(admission, AdmittedPod)
    return admission.request


class Scheduler:
    """A ledger, and a filter on them."""

    def __init__(self, nodes: int, cards: int, packer: Packer | None) -> None:
        self.ledger = Ledger()
        for n in range(nodes):
            mib = MIB if n % 3 else 2 * MIB
            self.ledger.put_node(
                f"n{n}", [a_card(f"c{n}-{i}", i, vendor="nvidia", mib=mib) for i in range(cards)]
            )
        self.placer = Placer(self.ledger.fleet, ScreenCache(), packer)
        self.filter = Filter(REGISTRY, self.ledger, self.placer, DecisionLog())

    def place(self, pod: Json, *nodes: str) -> str:
        """The node where it is bound; empty when it waits."""
        names = nodes or tuple(self.ledger.fleet.rows)
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})
        found = _answer(self.filter(body, 0)).node_names
        if not found:
            return ""
        uid = pod["metadata"]["uid"]
        self.ledger.binding_sent(uid)
        self.ledger.resolve_binding(uid, bound=True)
        return found[0]

    def card_of(self, uid: str) -> str:
        entry = self.ledger.entry(uid)
        assert entry is not None
        return entry.grant.shares[0].card


PAST = {70: 40, 30: 80, 45: 20}
"""Percent of a card -> pods."""


def packing(scheduler: Scheduler, past: Mapping[int, int] = PAST) -> Packer:
    """It has learned from these, and serves."""
    history, packer = History(), Packer()
    for percent, often in past.items():
        for _ in range(often):
            history.add(read(a_pod("past", share(percent))), 0)
    packer.state.adopt(learn(*packer.state.lesson(scheduler.ledger.fleet, history, 0)))
    packer.by_default = True
    scheduler.placer.packer = packer
    return packer


def half_full() -> Scheduler:
    """Of n1's only card a half is free, of n2's seven tenths: a pod of 0.3 leaves n1 a part that
    nobody asks for, and n2 one that others do."""
    scheduler = Scheduler(3, 1, None)
    scheduler.ledger.remove_node("n0")
    scheduler.place(a_pod("one", share(50)), "n1")
    scheduler.place(a_pod("other", share(30)), "n2")
    return scheduler


def test_a_pod_that_names_no_order_goes_where_least_is_lost() -> None:
    scheduler = half_full()
    packing(scheduler)
    assert scheduler.place(a_pod("p", share(30))) == "n2"


def test_without_enough_to_learn_from_it_goes_where_its_dialect_says() -> None:
    scheduler = half_full()
    scheduler.placer.packer = Packer()
    assert scheduler.place(a_pod("p", share(30))) == "n1"


def test_a_pod_that_names_an_order_has_it() -> None:
    scheduler = half_full()
    packer = packing(scheduler)
    packer.named("p")
    assert scheduler.place(a_pod("p", share(30))) == "n1"
    packer.forget("p")
    scheduler.ledger.ended("p")
    assert scheduler.place(a_pod("q", share(30))) == "n2"


def test_names_are_not_remembered_without_bound() -> None:
    scheduler = half_full()
    packer = packing(scheduler)
    for n in range(MOST_NAMED + 1):
        packer.named(f"p{n}")
    assert packer.units("p1", units(read(a_pod("p1", share(30)))))[0].lead.policy.node == "binpack"
    assert packer.units("p0", units(read(a_pod("p0", share(30)))))[0].lead.policy.node == "pack"


@pytest.mark.parametrize(
    ("limits", "node"),
    [
        (share(30), "pack"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000}, "pack"),
        ({"volcano.sh/gpu-memory": 3000}, "pack"),
        ({"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 4}, "pack"),
        (
            {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-core": 50,
             "koordinator.sh/gpu-memory-ratio": 50},
            "least-allocated",
        ),
    ],
)  # fmt: skip
def test_only_orders_that_pack_give_way(limits: Mapping[str, object], node: str) -> None:
    packer = packing(half_full())
    (unit,) = packer.units("p", units(read(a_pod("p", limits))))
    assert unit.lead.policy.node == node


def test_a_dialects_own_way_of_choosing_several_cards_stays() -> None:
    packer = packing(half_full())
    by_links = a_pod("p", {NV + "gpu": 2}, **{"hami.io/gpu-scheduler-policy": "topology-aware"})
    for pod in (by_links, a_pod("q", {"tencent.com/vcuda-core": 200})):
        before = units(read(pod))[0].lead.policy
        after = packer.units("x", units(read(pod)))[0].lead.policy
        assert (after.cards, after.choice) == (before.cards, before.choice)


def test_of_one_node_the_card_that_loses_least_is_taken() -> None:
    scheduler = Scheduler(2, 3, None)
    scheduler.ledger.remove_node("n0")
    for uid, percent in (("a", 70), ("b", 50), ("c", 30)):
        scheduler.place(a_pod(uid, share(percent)), "n1")
    assert len({scheduler.card_of(uid) for uid in "abc"}) == 3
    packing(scheduler)
    scheduler.place(a_pod("p", share(30)))
    assert scheduler.card_of("p") == scheduler.card_of("a")
    scheduler.place(a_pod("q", share(30)))
    assert scheduler.card_of("q") == scheduler.card_of("c")


def test_containers_that_share_one_card_are_weighed_together() -> None:
    scheduler = half_full()
    packing(scheduler)
    resources = {"limits": {"volcano.sh/gpu-memory": str(MIB * 15 // 100)}}
    pod = a_pod("p", {})
    pod["spec"]["containers"] = [{"name": n, "resources": resources} for n in ("c", "d")]
    assert scheduler.place(pod) == "n2"


sizes = st.sampled_from(
    [share(p) for p in (5, 20, 30, 45, 70, 100)]
    + [
        {NV + "gpu": 2},
        {NV + "gpu": 1, NV + "gpumem-percentage": 50, NV + "gpucores": 30},
        {"volcano.sh/gpu-memory": 2500},
        {"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 12},
    ]
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("comes"), sizes),
        st.tuples(st.just("leaves"), st.integers(0, 99)),
        st.tuples(st.just("node"), st.integers(0, 4)),
        st.tuples(st.just("gone"), st.integers(0, 4)),
        st.tuples(st.just("lesson"), st.sampled_from([PAST, {20: 60}, {100: 60}, {}])),
    ),
    max_size=25,
)


def change(scheduler: Scheduler, kind: str, what: Any) -> None:
    ledger = scheduler.ledger
    if kind == "leaves":
        here = [entry.grant.uid for entry in ledger.entries()]
        if here:
            ledger.ended(here[what % len(here)])
    elif kind == "node":
        cards = [a_card(f"c{what}-{i}", i, vendor="nvidia", mib=MIB) for i in range(1 + what % 3)]
        ledger.put_node(f"n{what}", cards)
    elif kind == "gone":
        ledger.remove_node(f"n{what}")
    elif kind == "lesson":
        packing(scheduler, what)


@settings(max_examples=60, deadline=None)
@given(events)
def test_a_pod_that_fits_somewhere_is_always_placed(steps: list[tuple[str, Any]]) -> None:
    scheduler = Scheduler(3, 2, None)
    packing(scheduler)
    for number, (kind, what) in enumerate(steps):
        if kind != "comes":
            change(scheduler, kind, what)
            continue
        pod = a_pod(f"p{number}", what)
        fleet, wanted = scheduler.ledger.fleet, units(read(pod))
        rows = fleet.rows.values()
        somewhere = any(
            not isinstance(Placer(fleet).fit(r, wanted, NO_LIMITS), NoFit) for r in rows
        )
        assert bool(scheduler.place(pod)) == somewhere


@settings(max_examples=60, deadline=None)
@given(events)
def test_what_is_cached_between_pods_never_changes_an_answer(steps: list[tuple[str, Any]]) -> None:
    """One scheduler keeps its packer, the other one has a fresh one for every pod."""
    keeps, afresh = Scheduler(3, 2, None), Scheduler(3, 2, None)
    packing(keeps)
    for number, (kind, what) in enumerate(steps):
        change(keeps, kind, what)
        if kind != "lesson":
            change(afresh, kind, what)
        if kind == "comes":
            afresh.placer.packer = another(keeps.placer.packer)
            pod = a_pod(f"p{number}", what)
            assert keeps.place(pod) == afresh.place(pod)
            ledger = [scheduler.ledger.entry(f"p{number}") for scheduler in (keeps, afresh)]
            assert ledger[0] == ledger[1]


def another(packer: Packer | None) -> Packer:
    assert packer is not None
    fresh = Packer(packer.state.apart())
    fresh.by_default = packer.by_default
    return fresh


def test_a_state_next_to_another_learns_of_kinds_that_the_other_met() -> None:
    """A lesson is prepared on a second state while the first one serves."""
    scheduler = half_full()
    packer = packing(scheduler)
    scheduler.place(a_pod("p", share(20)))
    neighbour = packer.state.apart()
    scheduler.ledger.put_node("n1", [a_card("c1-0", 0, vendor="nvidia", mib=3 * MIB)])
    neighbour.follow(scheduler.ledger.fleet)
    scheduler.ledger.put_node("n1", [a_card("c1-0", 0, vendor="nvidia", mib=MIB)])
    scheduler.ledger.ended("p")
    assert scheduler.place(a_pod("q", share(30))) == "n2"


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=12), st.permutations(range(5)))
def test_equal_clusters_give_equal_answers(shapes: list[Any], order: list[int]) -> None:
    """In whatever order their nodes came."""
    one, other = Scheduler(0, 0, None), Scheduler(0, 0, None)
    for scheduler, numbers in ((one, range(5)), (other, order)):
        for n in numbers:
            change(scheduler, "node", n)
        packing(scheduler)
    for number, limits in enumerate(shapes):
        pod = a_pod(f"p{number}", limits)
        assert one.place(pod, *one.ledger.fleet.rows) == other.place(pod, *one.ledger.fleet.rows)
        assert one.ledger.entry(f"p{number}") == other.ledger.entry(f"p{number}")
