"""Kubelet adds up what pods ask of each name and holds it against the node's amount: whatever the
ledger grants of the cards, in whatever dialect, the amounts that an agent writes suffice."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.inventory.extended_resources import amounts_of
from tessera_core.kube.quantity import quantity_value
from tessera_core.registry.registry import load
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import Card
from tessera_schema.kube import Node, Pod
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.verdicts import PlanOutcome, Verdict
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tessera_testing.plan import plan

REGISTRY = load()
GIB = 1024
ASKS = st.one_of(
    st.fixed_dictionaries(
        {"nvidia.com/gpu": st.integers(1, 2)},
        optional={
            "nvidia.com/gpumem": st.integers(1, 16 * GIB),
            "nvidia.com/gpucores": st.integers(0, 100),
            "nvidia.com/priority": st.integers(0, 1),
        },
    ),
    st.fixed_dictionaries(
        {"nvidia.com/gpu": st.just(1), "nvidia.com/gpumem-percentage": st.integers(1, 100)}
    ),
    st.fixed_dictionaries(
        {"volcano.sh/vgpu-number": st.integers(1, 2)},
        optional={
            "volcano.sh/vgpu-memory": st.integers(1, 16 * GIB),
            "volcano.sh/vgpu-cores": st.integers(1, 100),
        },
    ),
    st.fixed_dictionaries({"volcano.sh/gpu-number": st.integers(1, 2)}),
    st.fixed_dictionaries({"volcano.sh/gpu-memory": st.integers(1, 16 * GIB)}),
    st.fixed_dictionaries({"koordinator.sh/gpu": st.sampled_from([1, 7, 50, 99, 100, 200])}),
    st.fixed_dictionaries({
        "koordinator.sh/gpu-core": st.integers(1, 100),
        "koordinator.sh/gpu-memory-ratio": st.integers(1, 100),
    }),
    st.fixed_dictionaries({
        "tencent.com/vcuda-core": st.integers(1, 100),
        "tencent.com/vcuda-memory": st.integers(1, 64),
    }),
)  # fmt: skip


def a_machine(cards: Sequence[Card]) -> Node:
    published = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards)))
    return a_node("n", annotations={f"{CARDS_PREFIX}nvidia": published})


def placed_on(machine: Node, pods: Sequence[Pod]) -> list[PlanOutcome]:
    return [o for o in plan(pods, [machine]) if o.verdict is Verdict.PLACED]


def requested_of(placed: Sequence[PlanOutcome]) -> Counter[str]:
    """As kubelet adds it up: limits as admission leaves them."""
    total: Counter[str] = Counter()
    for outcome in placed:
        for container in outcome.containers.values():
            total.update({n: quantity_value(amount) for n, amount in container.limits.items()})
    return total


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ASKS, min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 12)), min_size=1, max_size=3),
)
def test_no_grant_is_beyond_them(asks: list[dict[str, int]], sizes: list[tuple[int, int]]) -> None:
    cards = [
        a_card(f"GPU-{i}", i, mib=gib * GIB, slots=slots, vendor="nvidia")
        for i, (gib, slots) in enumerate(sizes)
    ]
    pods = [a_pod(a_container(ask), name=f"p{i}") for i, ask in enumerate(asks)]
    amounts = amounts_of(REGISTRY, "nvidia", cards)
    asked = requested_of(placed_on(a_machine(cards), pods))
    assert {name: n for name, n in asked.items() if n > amounts[name]} == {}


def test_equal_parts_use_up_the_card_and_its_amounts() -> None:
    card = a_card("GPU-0", 0, mib=16 * GIB, slots=8, vendor="nvidia")
    ask = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2 * GIB}
    pods = [a_pod(a_container(ask), name=f"p{i}") for i in range(9)]
    placed = placed_on(a_machine([card]), pods)
    assert len(placed) == 8
    amounts = amounts_of(REGISTRY, "nvidia", [card])
    assert amounts["nvidia.com/gpu"] == 8
    assert amounts["nvidia.com/gpumem"] == 16 * GIB
    assert requested_of(placed)["nvidia.com/gpumem"] == 16 * GIB


def test_memory_next_to_a_whole_card_counts_nowhere() -> None:
    card = a_card("GPU-0", 0, mib=GIB, slots=8, vendor="nvidia")
    ask = {"tencent.com/vcuda-core": 100, "tencent.com/vcuda-memory": 5}
    placed = placed_on(a_machine([card]), [a_pod(a_container(ask))])
    assert len(placed) == 1
    assert requested_of(placed)["tencent.com/vcuda-memory"] == 0
