"""What a pod that waits learns: a number that fits, pods whose end leaves room, or that neither
helps."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.explain.advice import Advice, Barrier, PodMemoryUnit
from tessera_core.explain.remedies import advise, memory_unit
from tessera_core.ledger.entries import LedgerEntry, ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share
from tessera_schema.quotas import Limit
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tessera_testing.builders import a_card, a_container, a_pod

REGISTRY = load()
GPUMEM = PodMemoryUnit("nvidia.com/gpumem", MIB)


def a_request(*requests: Request, namespace: str = "team-a") -> PodRequest:
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=Role.APP, requests=(request,))
        for i, request in enumerate(requests)
    )
    return PodRequest(namespace=namespace, name="p", uid="p", containers=containers)


def of_memory(mib: int, *, count: int = 1, cores: float = 0, whole: bool = False) -> Request:
    return Request(
        vendor="nvidia", dialect="hami", memory_bytes=mib * MIB, count=count, cores_percent=cores,
        exclusive=whole,
    )  # fmt: skip


def card(index: int, mib: int = 81920) -> Card:
    return a_card(f"c{index}", index, vendor="nvidia", mib=mib, slots=10, model="A100")


def hold(
    ledger: Ledger, name: str, node: str, index: int, mib: int, *, cores: float = 0,
    whole: bool = False,
) -> None:  # fmt: skip
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card=f"c{index}", index=index,
        memory_bytes=mib * MIB, cores_percent=cores, exclusive=whole,
    )  # fmt: skip
    namespace, _, short = name.partition("/")
    grant = Grant(uid=name, namespace=namespace, name=short, node=node, shares=(share,))
    ledger.observe(ObservedPod(uid=name, grant=grant), 0)


def a_ledger(*nodes: tuple[str, Sequence[Card]]) -> Ledger:
    ledger = Ledger()
    for name, cards in nodes:
        ledger.put_node(name, cards)
    return ledger


def advice_on(ledger: Ledger, pod: PodRequest, unit: PodMemoryUnit = GPUMEM) -> Advice:
    return advise(ledger.fleet, ledger.on, pod, ledger.allowance(pod.namespace), unit=unit)


def test_less_or_the_end_of_another_pod() -> None:
    ledger = a_ledger(("a100-1", [card(0)]), ("a100-2", [card(0)]))
    hold(ledger, "team-b/infer-3", "a100-1", 0, 40000)
    hold(ledger, "team-b/train", "a100-2", 0, 60000)
    advice = advice_on(ledger, a_request(of_memory(50000)))
    assert advice.barrier is Barrier.HELD
    assert advice.largest_free is not None
    assert (advice.largest_free.node, advice.largest_free.memory_bytes) == ("a100-1", 41920 * MIB)
    assert [(h.namespace, h.name, h.memory_bytes) for h in advice.holders] == [
        ("team-b", "infer-3", 40000 * MIB)
    ]
    assert advice.sentence() == (
        "the largest free part is 40.9 GiB on a100-1: ask for at most nvidia.com/gpumem: 41920, "
        "or wait for team-b/infer-3"
    )


def test_no_card_is_that_large() -> None:
    ledger = a_ledger(("n", [replace(card(0, 24576), model="T4")]), ("m", [card(0, 16384)]))
    advice = advice_on(ledger, a_request(of_memory(40000)))
    assert advice.barrier is Barrier.TOO_LARGE
    assert advice.sentence() == (
        "no card of this cluster is that large (largest: 24576 MiB, T4): ask for at most "
        "nvidia.com/gpumem: 24576"
    )


def test_several_cards_are_of_one_node() -> None:
    ledger = a_ledger(("n", [card(0), card(1)]), ("m", [card(0)]))
    hold(ledger, "b/x", "n", 1, 61440)
    advice = advice_on(ledger, a_request(of_memory(30000, count=2)))
    assert advice.sentence() == (
        "the largest free parts of 2 cards of one node are 20 GiB on n: ask for at most "
        "nvidia.com/gpumem: 20480, or wait for b/x"
    )
    advice = advice_on(ledger, a_request(of_memory(30000, count=3)))
    assert advice.sentence() == "no node has 3 cards that would do (most: 2): ask for at most 2"


def test_whole_cards_are_waited_for() -> None:
    ledger = a_ledger(("n", [card(0), card(1)]))
    for index, name in enumerate(("b/x", "b/y")):
        hold(ledger, name, "n", index, 100)
    hold(ledger, "b/z", "n", 0, 100)
    advice = advice_on(ledger, a_request(of_memory(100, whole=True)))
    assert advice.sentence() == "no card is idle: wait for b/y"
    advice = advice_on(ledger, a_request(of_memory(100, whole=True, count=2)))
    assert set(advice.sentence().partition(": wait for ")[2].split(" and ")) == {
        "b/x", "b/y", "b/z"
    }  # fmt: skip


def test_cores_are_what_is_missing() -> None:
    ledger = a_ledger(("n", [card(0)]))
    hold(ledger, "b/x", "n", 0, 100, cores=66.7)
    advice = advice_on(ledger, a_request(of_memory(100, cores=50)))
    assert advice.sentence() == (
        "the largest free part is 33.3 % of cores on n: ask for at most 33.3 % of cores, or wait "
        "for b/x"
    )


def test_many_holders_are_not_listed() -> None:
    ledger = a_ledger(("n", [card(0)]))
    for number in range(10):
        hold(ledger, f"b/x{number}", "n", 0, 1)
    sentence = advice_on(ledger, a_request(of_memory(100, whole=True))).sentence()
    assert sentence == "no card is idle: wait for other pods to end"
    sentence = advice_on(ledger, a_request(of_memory(100))).sentence()
    assert sentence == "no card has anything free: wait for b/x0"


def test_cards_that_nobody_may_use_are_not_offered() -> None:
    ledger = a_ledger(("n", [replace(card(0), healthy=False)]), ("m", [card(0, 4096)]))
    hold(ledger, "b/x", "m", 0, 4000)
    assert advice_on(ledger, a_request(of_memory(5000))).barrier is Barrier.TOO_LARGE
    ill = a_ledger(("n", [replace(card(0), healthy=False)]))
    advice = advice_on(ill, a_request(of_memory(5000)))
    assert advice.sentence() == (
        "no nvidia card of this cluster would do: CardNotHealth; there are A100"
    )
    assert (
        advice_on(Ledger(), a_request(of_memory(1))).sentence() == "no node publishes nvidia cards"
    )


def test_models_that_are_not_there_are_set_against_those_that_are() -> None:
    ledger = a_ledger(("n", [card(0)]))
    request = replace(of_memory(1), models=("H100",))
    assert advice_on(ledger, a_request(request)).sentence() == (
        "no nvidia card of this cluster would do: CardTypeMismatch; there are A100"
    )


def test_a_quota_is_said_as_it_is() -> None:
    ledger = a_ledger(("n", [card(0)]))
    ledger.set_limits([Limit(namespace="team-a", source="ResourceQuota q", memory_bytes=MIB)])
    advice = advice_on(ledger, a_request(of_memory(5)))
    assert advice.barrier is Barrier.QUOTA
    assert advice.sentence().startswith("ResourceQuota q allows 1 MiB of memory")


def test_containers_that_fit_one_by_one() -> None:
    ledger = a_ledger(("n", [card(0, 1000)]))
    advice = advice_on(ledger, a_request(of_memory(600), of_memory(600)))
    assert advice.barrier is Barrier.TOGETHER
    assert advice_on(ledger, a_request(of_memory(600))).sentence() == ""


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000}, "nvidia.com/gpumem: 41920"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 9},
         "volcano.sh/vgpu-memory: 41920"),
        ({"tencent.com/vcuda-core": 10, "tencent.com/vcuda-memory": 99},
         "tencent.com/vcuda-memory: 163"),
        ({"koordinator.sh/gpu-memory": "80Gi"}, "koordinator.sh/gpu-memory: 41920Mi"),
        ({"nvidia.com/gpu": 1}, "41920 MiB"),
    ],
)  # fmt: skip
def test_amounts_are_in_the_unit_of_the_asker(limits: dict[str, str | int], most: str) -> None:
    pod = a_pod(a_container(limits))
    assert memory_unit(REGISTRY.dialects, pod).amount(41920 * MIB) == most


def test_the_search_is_bounded() -> None:
    ledger = a_ledger(*((f"n{i}", [card(0)]) for i in range(200)))
    for number in range(200):
        hold(ledger, f"b/x{number}", f"n{number}", 0, 81000)
    looked: list[str] = []

    def on(node: str) -> Iterator[LedgerEntry]:
        looked.append(node)
        return ledger.on(node)

    advise(ledger.fleet, on, a_request(of_memory(5000)), ledger.allowance("team-a"))
    assert 0 < len(looked) <= 8


held = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 30), st.integers(0, 40)),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(held, st.integers(1, 70), st.integers(0, 60), st.integers(1, 3), st.booleans())
def test_what_it_says_is_so(
    taken: list[tuple[int, int, int, int]],
    gib: int,
    cores: int,
    count: int,
    whole: bool,  # noqa: FBT001  (drawn)
) -> None:
    """Asking for what it names, or without the pods that it names, the pod is placed."""
    ledger = a_ledger(*((f"n{i}", [card(j, 65536) for j in range(3)]) for i in range(3)))
    for number, (node, index, size, part) in enumerate(taken):
        hold(ledger, f"b/x{number}", f"n{node}", index, size * 1024, cores=part)
    request = as_written = of_memory(gib * 1024, count=count, cores=cores, whole=whole)
    advice = advice_on(ledger, a_request(request))
    free = ledger.allowance("team-a")
    fits = isinstance(Placer(ledger.fleet).place(a_request(request), free), Placement)
    assert (advice.barrier is Barrier.NONE) == fits
    if advice.barrier is not Barrier.HELD:
        return
    free_part = advice.largest_free
    if free_part is not None and not whole and ": ask for at most" in advice.sentence():
        if advice.by_memory:
            request = replace(request, memory_bytes=free_part.memory_bytes)
        if advice.by_cores:
            request = replace(request, cores_percent=free_part.cores_percent)
        assert isinstance(Placer(ledger.fleet).place(a_request(request), free), Placement)
    for holder in advice.holders:
        ledger.ended(f"{holder.namespace}/{holder.name}")
    if advice.holders:
        assert isinstance(Placer(ledger.fleet).place(a_request(as_written), free), Placement)
