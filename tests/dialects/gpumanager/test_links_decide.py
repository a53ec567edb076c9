"""Whole cards on nodes whose cards say how close they are to each other."""

from __future__ import annotations

import msgspec
import pytest

from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import load
from tessera_core.topology.link_matrix import parse
from tessera_core.topology.tree import TopologyLevel
from tessera_schema.grants import GRANT_KEY
from tessera_schema.kube import Node, Pod
from tessera_schema.node_cards import NodeCardsAnnotation
from tessera_testing.builders import a_card, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.gpumanager.setting import a_bound_pod, asking, bound, cards_of, table

_CLASS = {
    TopologyLevel.SINGLE: 50,
    TopologyLevel.MULTIPLE: 40,
    TopologyLevel.HOST_BRIDGE: 30,
    TopologyLevel.NODE: 20,
}


def a_linked_node(name: str = "T6", mib: int = 1024) -> Node:
    """A node whose agent published its cards with the links of a table."""
    read = parse(table(name))
    links: list[dict[str, int]] = [{} for _ in range(read.count)]
    for (a, b), level in read.levels.items():
        links[a][f"u{b}"] = links[b][f"u{a}"] = _CLASS.get(level, 10) + 100 * (a + b)
    cards = tuple(
        a_card(f"u{i}", i, mib=mib, vendor="nvidia", links=links[i]) for i in range(read.count)
    )
    text = msgspec.json.encode(NodeCardsAnnotation(cards=cards)).decode()
    return a_node("n1", annotations={"cards.tessera.dev/nvidia": text})


def test_the_allocators_story_comes_out_the_same() -> None:  # E01
    node = a_linked_node()
    there: dict[str, Pod] = {}

    def place(name: str, *containers: tuple[int, int]) -> dict[int, list[int]]:
        pod = a_pod(*(asking(*c) for c in containers), name=name)
        (outcome,) = plan([pod], [node], bound=list(there.values()))
        there[name] = bound(outcome, without=[GRANT_KEY])
        return cards_of(outcome)

    assert place("pod-1", (300, 3), (0, 0)) == {0: [0, 1, 2]}
    assert place("pod-2", (100, 1), (100, 1)) == {0: [3], 1: [4]}
    assert place("pod-3", (100, 1)) == {0: [5]}
    del there["pod-2"]
    assert place("pod-4", (50, 1)) == {0: [3]}
    assert place("pod-5", (60, 1)) == {0: [4]}
    assert place("pod-6", (50, 1)) == {0: [3]}
    del there["pod-5"]
    assert place("pod-7", (100, 1)) == {0: [4]}
    last = Planner(load(), Cluster(nodes=[node], bound=list(there.values())))
    assert [c.cores_percent for _, c in sorted(last.ledger.charges_on("n1").items())] == [100] * 6


def cards_after(node: Node, asked: int, *taken: int) -> list[int]:
    """The cards that so many core units get where these cards are taken whole."""
    there = [
        a_bound_pod(asking(100), idx={0: str(i)}, name=f"t{i}", assigned="false") for i in taken
    ]
    (outcome,) = plan([a_pod(asking(asked))], [node], bound=there)
    return cards_of(outcome).get(0, [])


@pytest.mark.parametrize(
    ("topo", "taken", "core", "expected"),
    [
        pytest.param("T6", (1, 3, 5), 200, [0, 2], id="A22"),
        pytest.param("T6", (0, 1, 2, 4), 200, [3, 5], id="A25"),
        pytest.param("T8", (0, 2, 3, 4), 200, [6, 7], id="A36"),
        pytest.param("T8SYS", (0,), 200, [2, 3], id="a pair, not the lowest"),
        pytest.param("T8SYS", (0,), 100, [1], id="the broken pair first"),
        pytest.param("T8SYS", (0, 1, 2, 3, 4), 100, [5], id="the broken pair of the other side"),
        pytest.param("T4PXB", (1,), 200, [2, 3], id="A38"),
        pytest.param("T4PXB", (1, 2, 3), 200, [], id="too few"),
    ],
)
def test_links_decide_which_whole_cards(
    topo: str, taken: tuple[int, ...], core: int, expected: list[int]
) -> None:
    assert cards_after(a_linked_node(topo), core, *taken) == expected


def published(*cards: tuple[int, str]) -> Node:
    """A node of cards of which only NUMA node and switch are known."""
    made = tuple(
        a_card(f"u{i}", i, vendor="nvidia", numa=numa, switch=switch)
        for i, (numa, switch) in enumerate(cards)
    )
    text = msgspec.json.encode(NodeCardsAnnotation(cards=made)).decode()
    return a_node("n1", annotations={"cards.tessera.dev/nvidia": text})


def test_switches_and_numa_nodes_do_where_no_links_are_known() -> None:
    node = published((0, "s0"), (0, ""), (1, "s1"), (1, "s1"))
    assert cards_after(node, 200) == [2, 3]
    assert cards_after(node, 100, 2) == [3]
    assert cards_after(node, 200, 3) == [0, 1]


def test_cards_that_say_nothing_are_taken_in_order() -> None:
    node = published((0, ""), (0, ""), (0, ""))
    assert cards_after(node, 200) == [0, 1]
    assert cards_after(node, 200, 0) == [1, 2]
