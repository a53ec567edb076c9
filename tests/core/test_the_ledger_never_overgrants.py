"""Invariants 1 and 2 under everything that can happen between the ledger and the API server."""

import json
from collections import Counter
from typing import ClassVar

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tessera_core.fleet.charges import Charge
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.registry.registry import load
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_container, a_node, a_pod
from tests.core.reckoning import reckon
from tests.core.simulated_api import SimulatedApi

STEPS = 10_000
IN_A_RUN = 100

REGISTRY = load()
GPUS = [
    {"id": f"GPU-{i}", "index": i, "count": 4, "devmem": 16384, "devcore": 100,
     "type": "NVIDIA-A10", "numa": i // 2, "mode": "hami-core", "health": True}
    for i in range(4)
]  # fmt: skip


def registered(node: str) -> str:
    return json.dumps([{**gpu, "id": f"{node}-{gpu['id']}"} for gpu in GPUS])


NODES = [
    a_node("n1", annotations={"hami.io/node-nvidia-register": registered("n1")}),
    a_node(
        "n2",
        annotations={"hami.io/node-nvidia-register": registered("n2")},
        capacity={"iluvatar.ai/vcuda-core": "200", "iluvatar.ai/vcuda-memory": "256"},
    ),
    a_node("n3", capacity={"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}),
]

HAMI, KOORD = "nvidia.com/", "koordinator.sh/"
counts = st.integers(1, 3)
percents = st.sampled_from([10, 25, 30, 50, 100])
slices = st.sampled_from([10, 40, 60])
blocks = st.integers(1, 128)
mib = st.sampled_from([100, 1000, 4096, 8192, 16384])


def named(
    prefix: str, **parts: st.SearchStrategy[Quantity]
) -> st.SearchStrategy[dict[str, Quantity]]:
    names = {prefix + k.replace("_", "-"): v for k, v in parts.items()}
    return st.fixed_dictionaries(names)


ASKS: dict[str, st.SearchStrategy[dict[str, Quantity]]] = {
    "hami": st.one_of(
        named(HAMI, gpu=counts, gpumem=mib, gpucores=percents),
        named(HAMI, gpu=counts),
        st.builds(lambda p: {"nvidia.com/gpumem-percentage": p}, percents),
    ),
    "volcano": st.one_of(
        named("volcano.sh/", gpu_memory=mib),
        named("volcano.sh/", gpu_number=counts),
        named("volcano.sh/", vgpu_number=counts, vgpu_memory=mib, vgpu_cores=percents),
    ),
    "koordinator": st.one_of(
        named(KOORD, gpu_core=percents, gpu_memory_ratio=percents),
        named(KOORD, gpu_memory=st.sampled_from(["800Mi", "1996Mi", "8Gi"])),
        named(KOORD, gpu=st.sampled_from([50, 100, 200])),
    ),
    "gpumanager": st.one_of(
        named("tencent.com/", vcuda_core=slices, vcuda_memory=st.integers(1, 64)),
        named("inspur.com/", vcuda_core=st.sampled_from([100, 200])),
    ),
    "replicas": st.one_of(
        named("nvidia.com/", **{"gpu.shared": st.integers(1, 2)}),
    ),
    "aliyun": st.one_of(
        named("aliyun.com/", gpu_mem=st.integers(1, 16)),
    ),
    "iluvatar": st.one_of(
        named("iluvatar.ai/", vgpu=st.just(1), vcuda_core=percents, vcuda_memory=blocks),
        named("iluvatar.ai/", vgpu=counts),
    ),
    "mthreads": st.one_of(
        named("mthreads.com/", vgpu=st.just(1), sgpu_memory=st.sampled_from([2, 8, 32]),
              sgpu_core=st.integers(1, 16)),
        named("mthreads.com/", vgpu=st.integers(1, 2)),
    ),
}  # fmt: skip


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    dialects = draw(
        st.sampled_from([[d] for d in ASKS] + [["hami", "mthreads"], ["volcano", "iluvatar"]])
    )

    def container(kind: str) -> Container:
        return a_container(draw(ASKS[kind]), sidecar=draw(st.booleans()) and kind != "app")

    apps = [a_container({k: v for d in dialects for k, v in draw(ASKS[d]).items()})]
    if draw(st.integers(0, 3)) == 0:
        apps.append(container(dialects[0]))
    inits = draw(st.sampled_from([0, 0, 0, 1, 2]))
    init = tuple(container(dialects[0]) for _ in range(inits))
    number = draw(st.integers(0, 10**9))
    return a_pod(
        *[_app(c) for c in apps], init=init, name=f"p{number}", uid=f"u{number}",
        restart_policy=draw(st.sampled_from(["Always", "Never"])),
        init_done=draw(st.booleans()),
    )  # fmt: skip


def _app(container: Container) -> Container:
    return a_container(container.resources.limits)


class LedgerUnderTest(RuleBasedStateMachine):
    """Pods come, are placed, bound, lost, and go."""

    uids = Bundle("uids")
    steps = 0
    done: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world = SimulatedApi(REGISTRY, NODES)
        self.world.start()
        self.since_list = 0

    def _did(self, what: str) -> None:
        LedgerUnderTest.steps += 1
        LedgerUnderTest.done[what] += 1
        self.since_list += 1

    @rule(target=uids, pods=st.lists(pods(), min_size=1, max_size=6))
    def created_and_placed(self, pods: list[Pod]) -> object:
        """The good way, several times over: so that cards fill."""
        placed = []
        for pod in pods:
            if pod.metadata.uid not in self.world.pods and self.world.create(pod):
                self.filtered(pod.metadata.uid)
                self.bound(pod.metadata.uid, written=True)
                self.answered(pod.metadata.uid, lost=False)
                placed.append(pod.metadata.uid)
        return multiple(*placed)

    @rule(target=uids, pod=pods())
    def created(self, pod: Pod) -> object:
        self._did("created")
        if pod.metadata.uid in self.world.pods:
            return multiple()
        uid = self.world.create(pod)
        return multiple() if uid is None else uid

    @rule(uid=uids)
    def filtered(self, uid: str) -> None:
        self._did("filtered")
        stored = self.world.pods.get(uid)
        if stored is None or stored.grant is not None or stored.terminal:
            return
        entry = self.world.ledger.entry(uid)
        if entry is not None and entry.phase is not AllocationPhase.RESERVED:
            return
        if entry is not None:
            self.world.ledger.forget(uid)
        grant = self.world.choose(uid)
        if grant is not None:
            refusal = self.world.ledger.assume([grant], self.world.now)
            assert refusal is None, f"placement and ledger disagree: {refusal}"

    @rule(first=uids, second=uids, third=uids)
    def filtered_together(self, first: str, second: str, third: str) -> None:
        """Three pods chosen from the same ledger: the transaction may fail, but only whole."""
        self._did("filtered_together")
        fresh = [
            uid for uid in dict.fromkeys((first, second, third))
            if uid in self.world.pods and self.world.pods[uid].grant is None
            and not self.world.pods[uid].terminal and self.world.ledger.entry(uid) is None
        ]  # fmt: skip
        grants = [g for g in map(self.world.choose, fresh) if g is not None]
        before = self.world.ledger.charges_on("n1"), self.world.ledger.charges_on("n3")
        before = tuple(dict(held) for held in before)  # type: ignore[assignment]
        if self.world.ledger.assume(grants, self.world.now) is not None:
            held = self.world.ledger.charges_on("n1"), self.world.ledger.charges_on("n3")
            assert tuple(dict(h) for h in held) == before
            assert all(self.world.ledger.entry(g.uid) is None for g in grants)

    @rule(uid=uids, written=st.booleans())
    def bound(self, uid: str, written: bool) -> None:  # noqa: FBT001  (drawn)
        self._did("bound")
        self.world.send(uid, written=written)

    @rule(uid=uids, lost=st.booleans())
    def answered(self, uid: str, lost: bool) -> None:  # noqa: FBT001  (drawn)
        self._did("answered")
        self.world.answer(uid, lost=lost)

    @rule()
    def unknown_outcomes_are_read(self) -> None:
        self._did("unknown_outcomes_are_read")
        self.world.settle_by_reading()

    @rule(uid=uids)
    def deleted(self, uid: str) -> None:
        self._did("deleted")
        if uid in self.world.pods:
            self.world.delete(uid)

    @rule(uid=uids)
    def ended(self, uid: str) -> None:
        self._did("ended")
        if uid in self.world.pods:
            self.world.finish(uid)

    @rule(at=st.integers(0, 50), again=st.booleans())
    def event_arrives(self, at: int, again: bool) -> None:  # noqa: FBT001  (drawn)
        """Out of order, and perhaps not for the last time."""
        self._did("event_arrives")
        events = self.world.events
        if events:
            event = events[at % len(events)]
            self.world.ledger.observe(event, self.world.now)
            if not again:
                events.remove(event)

    @rule(at=st.integers(0, 50))
    def event_is_lost(self, at: int) -> None:
        self._did("event_is_lost")
        if self.world.events:
            self.world.events.pop(at % len(self.world.events))

    @precondition(lambda self: self.since_list > 15)
    @rule()
    def listed_again(self) -> None:
        self._did("relisted")
        self.since_list = 0
        self.world.settle_by_reading()
        self.world.relist()
        self._only_the_living_hold()

    @precondition(lambda self: self.since_list > 15)
    @rule()
    def restarted(self) -> None:
        self._did("restarted")
        self.since_list = 0
        self.world.start()
        self._only_the_living_hold()

    @rule()
    def reservations_expired(self) -> None:
        self._did("reservations_expired")
        self.world.now += 1
        self.world.ledger.expire(self.world.now)

    @rule(node=st.sampled_from(NODES))
    def node_left_or_came(self, node: Node) -> None:
        self._did("node_left_or_came")
        self.world.away ^= {node.name}
        self.world.publish(node)

    @rule(node=st.sampled_from(NODES), card=st.integers(0, 3))
    def card_became_unhealthy_or_recovered(self, node: Node, card: int) -> None:
        self._did("card_fell_sick_or_recovered")
        places = [place for place in self.world.capacity if place[0] == node.name]
        self.world.unhealthy ^= {places[card % len(places)]}
        self.world.publish(node)

    @rule(node=st.sampled_from(NODES))
    def cards_got_other_ids(self, node: Node) -> None:
        self._did("cards_got_other_ids")
        self.world.renamed ^= {node.name}
        self.world.publish(node)

    @rule(percent=st.sampled_from([None, 100, 300]))
    def quota_changed(self, percent: int | None) -> None:
        self._did("quota_changed")
        limit = Limit(namespace="default", source="test", cores_percent=percent)
        self.world.ledger.set_limits([limit])

    # -- what must be true

    def _only_the_living_hold(self) -> None:
        living = {uid for uid, stored in self.world.pods.items() if not stored.terminal}
        assert {e.grant.uid for e in self.world.ledger.entries()} <= living

    @invariant()
    def no_card_is_granted_beyond_what_it_has(self) -> None:
        for place, charge in self.world.truth().items():
            card = self.world.capacity[place]
            assert charge.memory_bytes <= card.memory_bytes
            assert charge.cores_percent <= card.cores_percent
            assert charge.slots <= card.slots

    @invariant()
    def nothing_that_runs_is_released(self) -> None:
        for uid, stored in self.world.pods.items():
            if stored.grant is not None and not stored.terminal:
                entry = self.world.ledger.entry(uid)
                assert entry is not None
                assert entry.grant.node == stored.observed().grant.node  # type: ignore[union-attr]

    @invariant()
    def the_columns_are_the_sum_of_the_pages(self) -> None:
        ledger, fleet = self.world.ledger, self.world.ledger.fleet
        total: dict[tuple[int, int], Charge] = {}
        for entry in ledger.entries():
            for card, charge in entry.charges.items():
                at = fleet.locate(entry.grant.node, card)
                if at is not None:
                    total[at] = total.get(at, Charge()).plus(charge)
        for row in fleet.rows.values():
            for column in range(len(fleet.facts[row])):
                c, at = fleet.cards, (row, column)
                have = Charge(
                    int(c.memory_used[at]), int(c.cores_used[at]), int(c.sharers[at]),
                    int(c.exclusive[at]), resident_bytes=int(c.memory_used[at]),
                )  # fmt: skip
                assert have == total.get(at, Charge())

    @invariant()
    def the_ledger_is_what_a_second_reckoning_finds(self) -> None:
        reckon(self.world)


@pytest.mark.timeout(300)
def test_the_ledger_holds_for_ten_thousand_steps() -> None:
    """Hypothesis chooses how long a run is, so runs are added until there were enough steps."""
    LedgerUnderTest.steps = 0
    LedgerUnderTest.done.clear()
    seed = 0
    while LedgerUnderTest.steps < STEPS:
        run = hypothesis.seed(seed)(LedgerUnderTest)
        run_state_machine_as_test(run, settings=SETTINGS)
        seed += 1
    assert LedgerUnderTest.done["restarted"] > 50
    assert LedgerUnderTest.done["bound"] > 1000


SETTINGS = settings(
    max_examples=40,
    stateful_step_count=IN_A_RUN,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
