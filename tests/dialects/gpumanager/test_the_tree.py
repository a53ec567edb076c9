"""Growing the tree, its free cards, its drawing, and the tables that it is read from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.topology import render as drawing
from tessera_core.topology.link_matrix import BadMatrix, parse
from tessera_core.topology.tree import (
    CardGroup,
    FreeCards,
    Leaf,
    TopologyLevel,
    all_free,
    available,
    grow,
    numbers,
    occupy,
    release,
)
from tests.dialects.gpumanager.setting import BLOCK, a_tree, table


@pytest.mark.parametrize(
    ("act", "cores", "idle", "left"),
    [
        pytest.param("occupy", 100, 5, (0, 0), id="B04"),
        pytest.param("free", 50, 6, (100, 4), id="B11"),
        pytest.param("occupy", 1, 5, (99, 3), id="the smallest part ends idleness"),
        pytest.param("free", 100, 6, (100, 4), id="freeing what is free"),
    ],
)
def test_free_cards_follow_what_is_taken(
    act: str, cores: int, idle: int, left: tuple[int, int]
) -> None:
    root, free = a_tree("T6")
    free = (occupy if act == "occupy" else release)(free, 0, cores, BLOCK)
    assert available(root, free) == idle
    leaf = free.leaves[0]
    assert (leaf.cores_free, leaf.memory_free // BLOCK) == left


def test_taking_more_than_there_is_leaves_nothing() -> None:
    _, free = a_tree("T1")
    free = occupy(occupy(free, 0, 60, 3 * BLOCK), 0, 60, 3 * BLOCK)
    assert free.leaves[0] == Leaf(cores_free=0, memory_free=0, memory_total=4 * BLOCK)


def cards(group: CardGroup) -> list[list[int]]:
    return [list(numbers(g.cards)) for g in group.groups]


def test_closer_cards_meet_lower() -> None:
    root, _ = a_tree("T6")
    top = root.groups[0]
    assert (top.level, cards(top)) == (TopologyLevel.NODE, [[0, 1, 2, 3], [4, 5]])
    assert (top.groups[0].level, cards(top.groups[0])) == (
        TopologyLevel.HOST_BRIDGE,
        [[0, 1], [2, 3]],
    )
    assert [g.level for g in top.groups[0].groups] == [TopologyLevel.SINGLE, TopologyLevel.SINGLE]


def test_groups_that_a_pair_joins_become_one() -> None:
    pairs = {
        (0, 1): TopologyLevel.SINGLE,
        (2, 3): TopologyLevel.SINGLE,
        (1, 2): TopologyLevel.SINGLE,
    }
    assert cards(grow(4, pairs)) == [[0, 1, 2, 3]]


def test_a_card_without_known_neighbours_hangs_from_the_root() -> None:
    root = grow(3, {(0, 2): TopologyLevel.HOST_BRIDGE})
    assert (cards(root), root.alone, root.cards) == ([[0, 2]], (1,), 0b111)


def test_a_contradiction_never_puts_a_card_into_two_groups() -> None:
    pairs = {
        (0, 1): TopologyLevel.HOST_BRIDGE,
        (2, 3): TopologyLevel.HOST_BRIDGE,
        (0, 3): TopologyLevel.SINGLE,
        (1, 3): TopologyLevel.SYSTEM,
    }
    root = grow(4, pairs)
    assert cards(root) == [[0, 1, 2, 3]]
    assert cards(root.groups[0]) == [[0, 3]]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], TopologyLevel]]:
    """A number of cards, and levels of any of their pairs."""
    count = draw(st.integers(1, 9))
    number = st.integers(0, count - 1)
    pair = st.tuples(number, number).filter(lambda p: p[0] < p[1])
    levels = st.dictionaries(pair, st.sampled_from(TopologyLevel)) if count > 1 else st.just({})
    return count, draw(levels)


@given(shapes())
def test_every_card_is_once_in_every_tree(
    shape: tuple[int, dict[tuple[int, int], TopologyLevel]],
) -> None:
    count, pairs = shape

    def check(group: CardGroup) -> None:
        inner = 0
        for child in group.groups:
            assert inner & child.cards == 0
            assert child.level is not None
            assert group.level is None or child.level < group.level
            inner |= child.cards
            check(child)
        assert inner | sum(1 << i for i in group.alone) == group.cards

    root = grow(count, pairs)
    assert root.cards == (1 << count) - 1
    check(root)


def test_the_drawing_is_the_one_of_the_graph_service() -> None:
    root, free = a_tree("T3")
    free = occupy(free, 0, 50, BLOCK)
    nothing = "pids: [], usedMemory: 0, totalMemory: 0, allocatableCores: 0, allocatableMemory: 0"
    assert drawing.draw(root, free).splitlines() == [
        "ROOT:2",
        f"|---SOC (aval: 2, {nothing})",
        "|   |---GPU2 (pids: [], usedMemory: 0, totalMemory: 1073741824, "
        "allocatableCores: 100, allocatableMemory: 1073741824)",
        f"|   |---PIX (aval: 1, {nothing})",
        "|   |   |---GPU0 (pids: [], usedMemory: 0, totalMemory: 1073741824, "
        "allocatableCores: 50, allocatableMemory: 805306368)",
        "|   |   |---GPU1 (pids: [], usedMemory: 0, totalMemory: 1073741824, "
        "allocatableCores: 100, allocatableMemory: 1073741824)",
    ]


def test_the_drawing_shows_measurements() -> None:
    leaf = Leaf(memory_free=1, memory_total=2, memory_used=1, processes=(7, 8))
    text = drawing.draw(grow(1, {}), FreeCards((leaf,), 0))
    assert text == (
        "ROOT:0\n|---GPU0 (pids: [7 8], usedMemory: 1, totalMemory: 2, "
        "allocatableCores: 100, allocatableMemory: 1)\n"
    )


def test_groups_are_drawn_by_level_then_idle_cards() -> None:
    pairs = {
        (0, 1): TopologyLevel.SINGLE,
        (2, 3): TopologyLevel.SINGLE,
        (4, 5): TopologyLevel.MULTIPLE,
    }
    free = all_free([Leaf(memory_free=1, memory_total=1)] * 6)
    free = occupy(free, 3, 100, 0)
    heads = [
        line[4:7] for line in drawing.draw(grow(6, pairs), free).splitlines() if line[4] == "P"
    ]
    assert heads == ["PIX", "PIX", "PXB"]
    assert drawing.draw(grow(6, pairs), free).splitlines()[1].startswith("|---PIX (aval: 1,")


MODERN = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV4\tNODE\tPXB\t0-23,48-71\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tSYS\t24-47,72-95\t1\t\tN/A
GPU2\tSYS\tPSB\t X \tSYS\t24-47,72-95\t1\t\tN/A
NIC0\tPXB\tSYS\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
"""


def test_a_modern_table_is_read() -> None:
    read = parse(MODERN)
    assert read.count == 3
    assert read.levels == {(0, 2): TopologyLevel.SYSTEM, (1, 2): TopologyLevel.SYSTEM}
    assert read.direct == {(0, 1): 4}


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("PIX", TopologyLevel.SINGLE),
        ("PSB", TopologyLevel.SINGLE),
        ("PXB", TopologyLevel.MULTIPLE),
        ("PHB", TopologyLevel.HOST_BRIDGE),
        ("SOC", TopologyLevel.NODE),
        ("NODE", TopologyLevel.NODE),
        ("SYS", TopologyLevel.SYSTEM),
        ("N/A", None),
        ("NV12", None),
    ],
)
def test_each_word_has_its_level(word: str, level: TopologyLevel | None) -> None:
    read = parse(f" GPU0 GPU1\nGPU0 X {word}\nGPU1 {word} X\n")
    assert read.levels.get((0, 1)) is level


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1"),
        ("hello world", "line 1: 'hello world'"),
        ("GPU0 GPU2\nGPU0 X PIX", "line 1"),
        ("GPU0 GPU0\nGPU0 X PIX", "row GPU0|line 1"),
        ("GPU0 GPU1\nGPU0 X PIX", "row GPU1 is missing"),
        ("GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX", "row GPU1: 'PIX': no cell for GPU1"),
    ],
)
def test_a_broken_table_is_named(text: str, says: str) -> None:
    with pytest.raises(BadMatrix, match=says):
        parse(text)


def test_every_table_of_the_cases_is_read() -> None:
    assert parse(table("T8SYS")).levels[0, 4] is TopologyLevel.SYSTEM
    assert parse(table("T8NV")).direct[0, 7] == 1
    assert parse(table("T1")).levels == {}
