"""Where kubelet asks a device plugin, pods that ask for as much never start on a node at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from tessera_core.registry.plugin_requests import (
    AllocatedResources,
    PluginRequests,
    StartingPod,
    plugin_requests,
)
from tessera_core.registry.registry import load
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_schema.kube import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodStatus,
    Quantity,
)
from tessera_testing.builders import a_container, a_pod

REGISTRY = load()
READING = plugin_requests(REGISTRY)
NAME = "mthreads.com/vgpu"
PLUGINS = AllocatedResources(by_own_plugin=frozenset({NAME}))
AGENTS = AllocatedResources(by_agent=frozenset({NAME}))


class LedgerUnderTest:
    """On which node cards are held for which pod."""

    def __init__(self, allocated: AllocatedResources = PLUGINS, nodes: int = 2) -> None:
        self.held: dict[str, str] = {}
        self.starting = InFlightPods(READING, lambda uid: self.held.get(uid, ""))
        for i in range(nodes):
            self.starting.put_node(f"n{i}", allocated)

    def reserve(self, pod: Pod, node: str, now: float = 0) -> None:
        self.held[pod.metadata.uid] = node
        self.starting.reserve(pod, node, now)

    def see(self, pod: Pod, node: str, now: float = 0, **more: Any) -> bool:
        start = StartingPod(asks=READING.requests(pod), **more)
        return self.starting.observe(pod.metadata.uid, pod.name, node, start, now)

    def closed(self, pod: Pod) -> set[str]:
        return set(self.starting.closed_to(pod))


def asking(name: str, *counts: int, init: int = 0, **more: Any) -> Pod:
    inits = (a_container({NAME: init}),) if init else ()
    return a_pod(*(a_container({NAME: n}) for n in counts), name=name, init=inits, **more)


# -- what kubelet asks


def test_containers_request_one_by_one_and_init_containers_too() -> None:
    assert READING.requests(asking("a", 1, 2, init=3)) == {(NAME, 1), (NAME, 2), (NAME, 3)}


def test_only_what_a_plugin_registers_is_requested() -> None:
    limits: dict[str, Quantity] = {
        "nvidia.com/gpu": "2",
        "nvidia.com/gpumem": 3000,
        "cpu": 4,
        "mthreads.com/vgpu": 0,
    }
    assert READING.requests(a_pod(a_container(limits))) == {("nvidia.com/gpu", 2)}
    assert READING.requests(a_pod(a_container({"nvidia.com/gpu": "many"}))) == frozenset()


def start(phase: str, **status: Any) -> StartingPod | None:
    return READING.starting_pod(replace(asking("a", 1), status=PodStatus(phase=phase, **status)))


def test_a_bound_pod_is_admitted_when_kubelet_reports_it() -> None:
    asks = frozenset({(NAME, 1)})
    assert start("Pending") == StartingPod(asks=asks)
    assert start("Pending", start_time="2026-01-01T00:00:00Z") == StartingPod(
        asks=asks, admitted=True
    )


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed", "Unknown"])
def test_it_has_started_when_it_is_not_pending(phase: str) -> None:
    assert start(phase) is None


@pytest.mark.parametrize("which", ["init_container_statuses", "container_statuses"])
def test_it_has_started_when_one_of_its_containers_has(which: str) -> None:
    waits = ContainerStatus(name="other")
    for state in (
        ContainerState(running=ContainerStateRunning()),
        ContainerState(terminated=ContainerStateTerminated()),
    ):
        assert start("Pending", **{which: (waits, ContainerStatus(name="c0", state=state))}) is None
    assert start("Pending", **{which: (waits,)}) is not None


def test_it_has_its_cards_when_the_plugin_says_so() -> None:
    for said, started in (("true", True), ("false", False), ("", False)):
        notes = {"iluvatar.ai/gpu-assigned": said} if said else {}
        pod = a_pod(a_container({"iluvatar.ai/vgpu": 1}), annotations=notes)
        assert (READING.starting_pod(pod) is None) is started, said


def test_a_pod_that_requests_no_card_is_not_waited_for() -> None:
    assert READING.starting_pod(a_pod(a_container({"cpu": 1}))) is None


# -- who waits for which pod


def test_an_equal_pod_waits_for_another_node() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0")
    assert ledger.closed(asking("b", 1)) == {"n0"}
    assert ledger.closed(asking("b", 2)) == set()
    assert ledger.closed(asking("b", 2, 1)) == {"n0"}
    assert ledger.closed(asking("b", 2, init=1)) == {"n0"}


def test_it_is_reported_which_pod_it_waits_for() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0")
    (reported,) = ledger.starting.closed_to(asking("b", 1)).values()
    assert reported == (
        "default/a is starting there and asks for as much, mthreads.com/vgpu: 1, and kubelet does "
        "not tell the device plugin which container it asks for"
    )


def test_nobody_waits_for_itself() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0")
    assert ledger.closed(asking("a", 1)) == set()


def test_where_the_runtime_calls_nobody_waits() -> None:
    ledger = LedgerUnderTest(AllocatedResources())
    ledger.reserve(asking("a", 1), "n0")
    ledger.see(asking("b", 1), "n0")
    assert ledger.closed(asking("c", 1)) == set()


def test_a_reservation_that_is_given_up_is_waited_for_no_longer() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0")
    del ledger.held["uid-default-a"]
    assert ledger.closed(asking("b", 1)) == set()
    ledger.starting.expire(1, 300)
    assert len(ledger.starting) == 0


def test_a_reservation_counts_where_it_is_now() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0")
    ledger.reserve(asking("a", 1), "n1")
    assert ledger.closed(asking("b", 1)) == {"n1"}
    ledger.held["uid-default-a"] = "elsewhere"  # a node that does not allocate
    assert ledger.closed(asking("b", 1)) == set()


def test_a_bound_pod_is_waited_for_whatever_bound_it() -> None:
    ledger = LedgerUnderTest()
    ledger.see(asking("a", 1), "n0")
    assert ledger.closed(asking("b", 1)) == {"n0"}
    assert ledger.starting.drop("uid-default-a")
    assert ledger.closed(asking("b", 1)) == set()
    assert not ledger.starting.drop("uid-default-a")


def test_a_vendors_plugin_is_through_with_a_pod_that_has_started() -> None:
    ledger = LedgerUnderTest(PLUGINS)
    ledger.see(asking("a", 1), "n0")
    assert not ledger.see(asking("a", 1), "n0", admitted=True)
    assert ledger.closed(asking("b", 1)) == {"n0"}


def test_our_plugin_is_through_with_a_pod_that_kubelet_has_admitted() -> None:
    ledger = LedgerUnderTest(AGENTS)
    ledger.see(asking("a", 1), "n0")
    assert ledger.closed(asking("b", 1)) == {"n0"}
    assert ledger.see(asking("a", 1), "n0", admitted=True)
    assert ledger.closed(asking("b", 1)) == set()
    assert not ledger.starting.drop("uid-default-a")


def test_what_was_observed_before_the_node_counts_when_the_node_is_observed() -> None:
    ledger = LedgerUnderTest(nodes=0)
    ledger.see(asking("a", 1), "n0")
    assert ledger.closed(asking("b", 1)) == set()
    assert ledger.starting.put_node("n0", PLUGINS)
    assert not ledger.starting.put_node("n0", PLUGINS)
    assert ledger.closed(asking("b", 1)) == {"n0"}
    ledger.starting.remove_node("n0")
    assert ledger.closed(asking("b", 1)) == set()


def test_a_list_shows_who_is_left() -> None:
    ledger = LedgerUnderTest()
    ledger.see(asking("a", 1), "n0")
    ledger.see(asking("b", 2), "n1")
    ledger.reserve(asking("c", 3), "n0")
    assert ledger.starting.keep(frozenset({"uid-default-a"}))
    assert ledger.closed(asking("x", 1, 2, 3)) == {"n0"}
    assert not ledger.starting.keep(frozenset({"uid-default-a"}))
    assert len(ledger.starting) == 2


# -- who takes too long


def test_a_pod_that_kubelet_has_admitted_is_not_waited_for_without_end() -> None:
    ledger = LedgerUnderTest()
    ledger.see(asking("a", 1), "n0", now=10, admitted=True)
    assert ledger.starting.expire(310, 300) == []
    (late,) = ledger.starting.expire(311, 300)
    assert (late.uid, late.pod, late.node, late.let_go) == (
        "uid-default-a", "default/a", "n0", True,
    )  # fmt: skip
    assert ledger.closed(asking("b", 1)) == set()
    ledger.see(asking("a", 1), "n0", now=312, admitted=True)
    assert ledger.closed(asking("b", 1)) == set()


def test_a_pod_that_kubelet_has_not_reported_is_waited_for_and_reported_again() -> None:
    ledger = LedgerUnderTest()
    ledger.see(asking("a", 1), "n0", now=0)
    for now in (301, 602):
        (late,) = ledger.starting.expire(now, 300)
        assert not late.let_go
        assert ledger.closed(asking("b", 1)) == {"n0"}
    assert ledger.starting.expire(700, 300) == []


def test_time_counts_from_the_binding() -> None:
    ledger = LedgerUnderTest()
    ledger.reserve(asking("a", 1), "n0", now=0)
    ledger.see(asking("a", 1), "n0", now=100)
    ledger.see(asking("a", 1), "n0", now=200, admitted=True)
    assert ledger.starting.expire(399, 300) == []
    assert len(ledger.starting.expire(401, 300)) == 1


def test_one_that_is_gone_after_all_is_forgotten() -> None:
    ledger = LedgerUnderTest()
    ledger.see(asking("a", 1), "n0", admitted=True)
    ledger.starting.expire(301, 300)
    assert not ledger.starting.drop("uid-default-a")
    ledger.see(asking("a", 1), "n0")  # another pod may have its uid for all we know
    assert ledger.closed(asking("b", 1)) == {"n0"}


def test_nobody_is_notified_of_pods_on_nodes_that_do_not_allocate() -> None:
    ledger = LedgerUnderTest(AllocatedResources())
    ledger.see(asking("a", 1), "n0")
    assert ledger.starting.expire(301, 300) == []


# -- any order of events

UIDS = [f"uid-default-p{i}" for i in range(5)]
PODS = {uid: asking(f"p{i}", 1 + i % 2, 1 + i // 2) for i, uid in enumerate(UIDS)}
NODES = ("n0", "n1", "n2")
HOW = (PLUGINS, AGENTS, AllocatedResources())
uids, nodes = st.sampled_from(UIDS), st.sampled_from(NODES)


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes when, the same nodes are closed as by looking at every pod each time."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = LedgerUnderTest(nodes=3)
        self.how = dict.fromkeys(NODES, PLUGINS)
        self.bound: dict[str, tuple[str, bool]] = {}

    @rule(uid=uids, node=nodes)
    def reserved(self, uid: str, node: str) -> None:
        if uid not in self.bound and self.how[node]:
            self.ledger.reserve(PODS[uid], node)

    @rule(uid=uids)
    def given_up(self, uid: str) -> None:
        self.ledger.held.pop(uid, None)

    @rule(uid=uids, node=nodes, admitted=st.booleans())
    def observe(self, uid: str, node: str, admitted: bool) -> None:  # noqa: FBT001  (drawn)
        self.ledger.held.pop(uid, None)
        self.bound[uid] = node, admitted
        self.ledger.see(PODS[uid], node, admitted=admitted)

    @rule(uid=uids)
    def gone(self, uid: str) -> None:
        self.ledger.held.pop(uid, None)
        self.bound.pop(uid, None)
        self.ledger.starting.drop(uid)

    @rule(node=nodes, how=st.sampled_from(HOW))
    def other_node(self, node: str, how: AllocatedResources) -> None:
        if not self.how[node]:  # what was reserved there before is the filter's business
            for uid in [uid for uid, on in self.ledger.held.items() if on == node]:
                del self.ledger.held[uid]
        self.how[node] = how
        self.ledger.starting.put_node(node, how)

    @rule()
    def listed(self) -> None:
        self.ledger.starting.keep(frozenset(self.bound))

    @invariant()
    def the_right_nodes_are_closed(self) -> None:
        for pod in PODS.values():
            assert self.ledger.closed(pod) == self.plainly(pod)

    def plainly(self, pod: Pod) -> set[str]:
        asks = READING.requests(pod)
        others = {u: p for u, p in PODS.items() if p is not pod}
        equal = [u for u, other in others.items() if not asks.isdisjoint(READING.requests(other))]
        at = [self.bound.get(u, (self.ledger.held.get(u, ""), False)) for u in equal]
        return {node for node, admitted in at if node and self.waits(node, admitted=admitted)}

    def waits(self, node: str, *, admitted: bool) -> bool:
        how = self.how[node]
        return bool(how.by_own_plugin or (how.by_agent and not admitted))

    def teardown(self) -> None:
        for uid in UIDS:
            self.gone(uid)
        assert len(self.ledger.starting) == 0


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(deadline=None, stateful_step_count=40, max_examples=60)


def test_no_names_no_rule() -> None:
    assert PluginRequests(frozenset(), frozenset()).requests(asking("a", 1)) == frozenset()
