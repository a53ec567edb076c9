"""As long as no two pods that ask for as much start at once, it is always plain for which
pod kubelet asks, in whatever order pods are bound and admitted."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tessera_agent.api.pod_view import ContainerRun, ContainerView, PodView
from tessera_agent.device_plugin.allocations import RecordedAllocation
from tessera_agent.device_plugin.pod_match import amount, disagreement, requesting_containers
from tessera_kubelet.pod_resources import PodHolding
from tests.agent.deviceplugin.kubelet_node import GPU

COUNTS = st.lists(st.integers(0, 3), min_size=1, max_size=4)
"""What the containers of a pod ask for; 0 = nothing."""


def a_pod(name: str, counts: list[int], *, admitted: bool = False) -> PodView:
    runs = ContainerRun(container_id=f"containerd://{name}") if admitted else None
    containers = (
        ContainerView(name=f"c{i}", limits={GPU: str(count)} if count else {}, runs=runs)
        for i, count in enumerate(counts)
    )
    return PodView(uid=name, name=name, containers=tuple(containers), admitted=admitted)


@given(st.lists(COUNTS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_each_container_is_found_when_its_turn_has_come(
    pods: list[list[int]], chance: Random
) -> None:
    shown: dict[str, PodView] = {}
    waiting = {f"p{i}": counts for i, counts in enumerate(pods)}
    bound: dict[str, list[int]] = {}
    has: set[tuple[str, str]] = set()
    while waiting or bound:
        starting = {count for counts in bound.values() for count in counts} - {0}
        may = [name for name, counts in waiting.items() if starting.isdisjoint(counts)]
        if may and (not bound or chance.random() < 0.6):
            name = chance.choice(may)
            bound[name] = waiting.pop(name)
            shown[name] = a_pod(name, bound[name])
            continue
        name = chance.choice(sorted(bound))
        counts = bound.pop(name)
        for i, count in enumerate(counts):
            if count:
                found = requesting_containers(
                    shown.values(), GPU, count, lambda *which: which in has
                )
                assert [(f.pod.name, f.container.name) for f in found] == [(name, f"c{i}")]
                has.add((name, f"c{i}"))
        shown[name] = a_pod(name, counts, admitted=chance.random() < 0.5)


def test_a_limit_that_makes_no_sense_requests_nothing() -> None:
    for written in ("", "x", "1.5.2", "-"):
        assert amount(ContainerView(name="c", limits={GPU: written}), GPU) == 0
    assert amount(ContainerView(name="c", limits={GPU: "1k"}), GPU) == 1000


@given(st.permutations(range(4)))
def test_kubelet_and_agent_agree_only_where_each_has_its_own(order: list[int]) -> None:
    """Four containers of two pods; kubelet counts them in some order."""
    who = [("p0", "a"), ("p0", "b"), ("p1", "a"), ("p1", "b")]
    mine = [
        RecordedAllocation(
            resource=GPU, ids=(str(i),), uid=pod, namespace="team", pod=pod, container=name
        )
        for i, (pod, name) in enumerate(who)
    ]
    holdings = [
        PodHolding(namespace="team", name=pod, containers={name: {GPU: frozenset({str(i)})}})
        for i, (pod, name) in zip(order, who, strict=True)
    ]
    for i, one in enumerate(mine):
        right = who[order.index(i)] == who[i]
        assert (disagreement([one], holdings, GPU, one.ids) == "") == right
