"""Scores of cards and nodes, in whole numbers from 0 to 100."""

from __future__ import annotations

import numpy as np
import pytest

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.columns import CardColumns, NodeView
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.name_table import NameTable
from tessera_core.placement.predicates import amounts
from tessera_core.placement.scoring.koordinator import card_score, node_score, part_score
from tessera_schema.requests import Request
from tessera_testing.builders import a_card

MI = 1 << 20


def asking(ratio: int = 0, mib: int = 0) -> Request:
    return Request(
        vendor="nvidia", dialect="koordinator", memory_percent=ratio, memory_bytes=mib * MI,
        memory_unit=1,
    )  # fmt: skip


def a_fleet(*used: int, mib: int = 16384, healthy: int = 99) -> Fleet:
    """A node whose cards have so many MiB in use; the first `healthy` of them are healthy."""
    fleet = Fleet()
    cards = [
        a_card(f"GPU-{i}", i, mib=mib, vendor="nvidia", healthy=i < healthy)
        for i in range(len(used))
    ]
    fleet.put("n1", cards)
    for i, n in enumerate(used):
        fleet.charge("n1", f"GPU-{i}", Charge(n * MI, 0, min(n, 1)))
    return fleet


def of_node(fleet: Fleet, request: Request, *, most: bool) -> int:
    return int(node_score(fleet, request, most=most)[fleet.rows["n1"]])


@pytest.mark.parametrize(
    ("total", "used", "request_", "most", "score"),
    [
        pytest.param(100, 0, 50, False, 50, id="G1"),
        pytest.param(100, 50, 30, False, 20, id="G3-least"),
        pytest.param(100, 50, 30, True, 80, id="G3-most"),
        pytest.param(100, 80, 30, False, 0, id="too-much-is-worth-nothing"),
        pytest.param(100, 80, 30, True, 100, id="too-much-is-all"),
        pytest.param(100, 130, 0, False, 0, id="a-card-with-more-promised-than-it-has"),
        pytest.param(0, 0, 10, False, 0, id="no-card"),
    ],
)
def test_one_resource(*, total: int, used: int, request_: int, most: bool, score: int) -> None:
    scores = part_score(np.array([total]), np.array([used]), request_, most=most)
    assert scores.tolist() == [score]


@pytest.mark.parametrize(
    ("used", "ratio", "mib", "most", "score"),
    [
        pytest.param((0,), 100, 0, False, 50, id="G4"),
        pytest.param((0, 0), 50, 0, False, 87, id="G5"),
        pytest.param((0,), 0, 8192, False, 75, id="bytes-do-not-count-in-percent"),
        pytest.param((8192,), 50, 0, False, 25, id="half-used-least"),
        pytest.param((8192,), 50, 0, True, 75, id="half-used-most"),
        pytest.param((8192, 0), 50, 0, True, 37, id="a-node-is-the-sum-of-its-cards"),
    ],
)
def test_a_node_is_scored_by_the_sum_of_its_cards(
    *, used: tuple[int, ...], ratio: int, mib: int, most: bool, score: int
) -> None:
    assert of_node(a_fleet(*used), asking(ratio, mib), most=most) == score


def test_unhealthy_cards_do_not_count() -> None:
    assert of_node(a_fleet(0, 8192, healthy=1), asking(50), most=False) == 75
    assert of_node(a_fleet(0, healthy=0), asking(50), most=False) == 0


def test_a_fleet_without_the_vendor_scores_nothing() -> None:
    fleet = Fleet()
    fleet.put("n1", [a_card("x", 0, vendor="acme")])
    assert of_node(fleet, asking(50), most=True) == 0


@pytest.mark.parametrize(
    ("used_mib", "most", "scores"),
    [((0, 8192), False, [75, 25]), ((0, 8192), True, [25, 75])],
)
def test_a_card_is_scored_like_a_node_of_one(
    *, used_mib: tuple[int, ...], most: bool, scores: list[int]
) -> None:
    state = CardColumns((len(used_mib),))
    facts = tuple(a_card(f"GPU-{i}", i, vendor="nvidia") for i in range(len(used_mib)))
    state.memory_total[:] = 16384 * MI
    state.memory_used[:] = np.array(used_mib) * MI
    view = NodeView("n1", facts, state)
    request = asking(50)
    need = amounts(request, state, NameTable())
    assert [card_score(view, i, request, need, most=most) for i in range(len(facts))] == scores


def test_thirds_are_counted_as_they_were_requested() -> None:
    total = 24 << 30
    fleet = Fleet()
    fleet.put("n1", [a_card("GPU-0", 0, mib=24 * 1024, vendor="nvidia")])
    fleet.charge("n1", "GPU-0", Charge(33 * total // 100, 0, 1))
    percent, by_bytes = 100 - 33 - 33, 100 * (total - 33 * total // 100) // total
    assert of_node(fleet, asking(33), most=False) == (percent + by_bytes) // 2
