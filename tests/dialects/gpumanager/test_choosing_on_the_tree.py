"""The three evaluators, on trees of real tables."""

from __future__ import annotations

import pytest

from tessera_core.topology.evaluators import fragment, link, share
from tessera_core.topology.tree import occupy, release
from tests.dialects.gpumanager.setting import BLOCK, a_tree

Op = tuple[str, int, int, int]


def taken(*cards: int) -> list[Op]:
    return [("occupy", card, 100, 0) for card in cards]


def part(card: int, cores: int, blocks: int) -> Op:
    return ("occupy", card, cores, blocks)


def choose(topo: str, ops: list[Op], mode: str, cores: int, blocks: int) -> tuple[int, ...] | None:
    root, free = a_tree(topo)
    for op, card, op_cores, op_blocks in ops:
        act = occupy if op == "occupy" else release
        free = act(free, card, op_cores, op_blocks * BLOCK)
    match mode:
        case "link":
            return link(root, free, cores // 100)
        case "fragment":
            return fragment(root, free, cores // 100)
        case _:
            return share(free, cores, blocks * BLOCK)


@pytest.mark.parametrize(
    ("topo", "ops", "mode", "cores", "blocks", "expected"),
    [
        pytest.param("T6", [], "fragment", 200, 0, (4, 5), id="A03"),
        pytest.param("T1", [], "fragment", 100, 0, (0,), id="A05"),
        pytest.param("T6", [], "share", 50, 0, (0,), id="A06"),
        pytest.param("T6", [part(3, 50, 4)], "share", 10, 1, (0,), id="A10"),
        pytest.param("T6", [part(3, 50, 2), part(1, 50, 1)], "share", 10, 0, (3,), id="A11"),
        pytest.param("T6", [part(3, 50, 1), part(1, 50, 1)], "share", 10, 0, (1,), id="A12"),
        pytest.param("T6", taken(5), "share", 10, 1, (0,), id="A13"),
        pytest.param("T6", [], "share", 10, 5, None, id="A14"),
        pytest.param("T6", [], "link", 200, 0, (0, 1), id="A15"),
        pytest.param("T6", [], "link", 400, 0, (0, 1, 2, 3), id="A16"),
        pytest.param("T6", [], "link", 600, 0, (0, 1, 2, 3, 4, 5), id="A18"),
        pytest.param("T6", [], "link", 700, 0, None, id="A19"),
        pytest.param("T6", [], "fragment", 100, 0, (4,), id="A20"),
        pytest.param("T6", taken(1, 3, 5), "link", 200, 0, (0, 2), id="A22"),
        pytest.param("T6", taken(1, 3, 5), "link", 300, 0, (0, 2, 4), id="A23"),
        pytest.param("T6", taken(1, 3), "fragment", 100, 0, (0,), id="A24"),
        pytest.param("T6", taken(0, 1, 2, 4), "link", 200, 0, (3, 5), id="A25"),
        pytest.param("T6", [part(0, 50, 1)], "fragment", 100, 0, (4,), id="A26"),
        pytest.param("T6", [part(0, 50, 1)], "link", 600, 0, None, id="A27"),
        pytest.param("T6", [part(4, 50, 1)], "fragment", 100, 0, (5,), id="A28"),
        pytest.param("T6", taken(0, 1, 2, 3, 4, 5), "fragment", 100, 0, None, id="A29"),
        pytest.param("T8", taken(0), "link", 300, 0, (1, 2, 3), id="A31"),
        pytest.param("T8", taken(0), "fragment", 100, 0, (1,), id="A33"),
        pytest.param("T8", taken(0, 2, 3, 4), "link", 200, 0, (6, 7), id="A36"),
        pytest.param("T4PXB", taken(1), "link", 200, 0, (2, 3), id="A38"),
        pytest.param("T4PXB", taken(3), "fragment", 100, 0, (2,), id="A39"),
        pytest.param("T3", [], "fragment", 100, 0, (0,), id="A40"),
        pytest.param("T8SYS", [], "link", 500, 0, (0, 1, 2, 3, 4), id="A42"),
        pytest.param("T4FLAT", [], "link", 200, 0, (0, 1), id="A43"),
        pytest.param("T6", taken(0, 1, 2, 3), "fragment", 100, 0, (4,), id="A48"),
        pytest.param("T3SYS", [], "link", 200, 0, (0, 1), id="A49"),
        pytest.param("T3SYS", taken(0), "link", 200, 0, (1, 2), id="across processors"),
        pytest.param("T3SYS", taken(0, 1), "fragment", 100, 0, (2,), id="lone card last"),
        pytest.param("T4SYS", [], "link", 200, 0, (0, 1), id="all across processors"),
        pytest.param("T4SYS", taken(0), "fragment", 100, 0, (1,), id="none close, one card"),
        pytest.param("T8NV", [], "link", 300, 0, (0, 1, 2), id="only direct links known"),
        pytest.param("T8NV", taken(0), "fragment", 100, 0, (1,), id="no structure, one card"),
        pytest.param("T1", [], "share", 99, 4, (0,), id="one card, all but one percent"),
        pytest.param("T1", taken(0), "fragment", 100, 0, None, id="one card, taken"),
    ],
)
def test_the_expected_cards_are_chosen(
    topo: str, ops: list[Op], mode: str, cores: int, blocks: int, expected: tuple[int, ...] | None
) -> None:
    assert choose(topo, ops, mode, cores, blocks) == expected


def test_a_card_with_one_of_two_parts_given_back_is_not_idle() -> None:
    ops = [part(0, 30, 1), part(0, 30, 1), ("release", 0, 30, 1)]
    assert choose("T1", ops, "fragment", 100, 0) is None
    assert choose("T1", [*ops, ("release", 0, 30, 1)], "fragment", 100, 0) == (0,)


def test_differences_below_256_mib_do_not_count() -> None:
    _, free = a_tree("T3")
    free = occupy(free, 1, 0, BLOCK // 2)
    free = occupy(free, 2, 0, 1)
    assert share(free, 10, BLOCK) == (1,)
    assert share(occupy(free, 2, 0, BLOCK), 10, BLOCK) == (2,)


def test_a_share_is_chosen_among_the_cards_allowed() -> None:
    _, free = a_tree("T6")
    assert share(free, 10, BLOCK, among=(5, 2)) == (2,)
    assert share(free, 10, BLOCK, among=()) is None
