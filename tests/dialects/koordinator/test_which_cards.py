"""Which cards a sequence of pods gets on one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tessera_core.dialects.koordinator.names import KoordinatorOptions
from tessera_schema.kube import Custom, Pod
from tessera_testing.builders import a_node
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import (
    HALF,
    a_device,
    a_koord_pod,
    bound,
    devices,
    flat,
    pairs_of_eight,
)

LEAST, MOST = "LeastAllocated", "MostAllocated"
FIFTH = "sh=1 core=20 ratio=20"
REFUSED = ()


def chosen(
    node: Custom, texts: Sequence[str], strategy: str = LEAST, old: Sequence[Pod] = (), **facts: Any
) -> list[tuple[int, ...]]:
    """Minors that each pod gets, in order; none where it has to wait."""
    pods = [a_koord_pod(text, name=f"p{i}", **facts) for i, text in enumerate(texts)]
    config = {"koordinator": {"scoring_strategy": strategy}}
    outcomes = plan(pods, [a_node()], customs=[node], bound=old, config=config)
    return [
        tuple(s.index for s in o.grant.shares) if o.grant is not None else REFUSED for o in outcomes
    ]


def single(*minors: int) -> list[tuple[int, ...]]:
    return [(m,) for m in minors]


@pytest.mark.parametrize(
    ("node", "strategy", "texts", "minors"),
    [
        pytest.param(flat(4, "24Gi"), LEAST, [HALF] * 5, single(0, 1, 2, 3, 0), id="D1"),
        pytest.param(flat(4, "24Gi"), MOST, [HALF] * 5, single(0, 0, 1, 1, 2), id="flat-most"),
        pytest.param(
            pairs_of_eight("24Gi"), LEAST, [HALF] * 6, single(0, 1, 0, 1, 2, 3), id="halves-least"
        ),
        pytest.param(pairs_of_eight("24Gi"), MOST, [HALF] * 6, single(0, 0, 1, 1, 2, 2), id="D4"),
        pytest.param(
            pairs_of_eight("24Gi"), LEAST, [FIFTH] * 12,
            single(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3), id="D5-with-the-scores-arguments-in-order",
        ),
        pytest.param(
            pairs_of_eight("24Gi"), MOST, [FIFTH] * 7, single(0, 0, 0, 0, 0, 1, 1), id="D6"
        ),
        pytest.param(
            pairs_of_eight("16Gi"), LEAST, ["nv=3", "nv=3", "nv=2"],
            [(0, 1, 2), (4, 5, 6), (3, 7)], id="D8",
        ),
        pytest.param(pairs_of_eight("16Gi"), LEAST, ["nv=1"] * 5, single(0, 1, 2, 3, 4), id="D9"),
        pytest.param(
            flat(2, "16Gi"), LEAST, ["gpu=100", HALF, HALF, HALF],
            [*single(0, 1, 1), REFUSED], id="D10",
        ),
        pytest.param(
            flat(1, "16Gi"), LEAST, ["ratio=50", "core=100 ratio=50"], single(0, 0), id="D11"
        ),
        pytest.param(
            flat(1, "16Gi"), LEAST, ["core=100 ratio=50", "ratio=50"], single(0, 0),
            id="cores-all-promised-and-none-asked",
        ),
        pytest.param(
            flat(1, "100Gi"), LEAST, ["sh=1 mem=1996Mi"] * 4 + ["sh=1 ratio=96", "sh=1 ratio=92"],
            [*single(0, 0, 0, 0), REFUSED, (0,)], id="D13-by-exact-bytes",
        ),
        pytest.param(
            flat(1, "80Gi"), LEAST, ["sh=1 mem=800Mi"] * 2 + ["sh=1 ratio=100", "sh=1 ratio=98"],
            [*single(0, 0), REFUSED, (0,)], id="D14-by-exact-bytes",
        ),
        pytest.param(
            flat(2, "16Gi"), LEAST, ["sh=2 core=100 ratio=100"] * 2 + ["sh=1 ratio=1"],
            [(0, 1), (0, 1), REFUSED], id="D15",
        ),
        pytest.param(
            pairs_of_eight("16Gi"), LEAST, ["sh=2 core=100 ratio=100"], [(0, 1)], id="D16"
        ),
        pytest.param(flat(1, "16Gi"), LEAST, ["core=200 mem=16Gi"], [REFUSED], id="D18-one-card"),
        pytest.param(
            flat(2, "16Gi"), LEAST, ["core=200 mem=16Gi"], [(0, 1)], id="D18-the-webhooks-rescue"
        ),
        pytest.param(pairs_of_eight("80Gi"), LEAST, [HALF], [(0,)], id="D20"),
    ],
)  # fmt: skip
def test_pods_in_order_get(
    node: Custom, strategy: str, texts: list[str], minors: list[tuple[int, ...]]
) -> None:
    assert chosen(node, texts, strategy) == minors


def f8(*unhealthy: int) -> Custom:
    return devices(*(
        a_device(i, "83201216Ki", switch=str(i // 2), numa=i // 4, health=i not in unhealthy)
        for i in range(8)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("node", "old", "text", "minors"),
    [
        pytest.param(f8(), [bound([5])], "nv=1", (4,), id="E5"),
        pytest.param(f8(), [bound([7])], "nv=1", (6,), id="a-switch-in-use-comes-first"),
        pytest.param(f8(), [bound([5])], "nv=2", (6, 7), id="E6"),
        pytest.param(f8(), [bound([5])], "nv=4", (0, 1, 2, 3), id="E7"),
        pytest.param(f8(), [bound([0, 5])], "nv=4", (1, 2, 3, 4), id="E8-without-its-hint"),
        pytest.param(flat(4, "8Gi", first=1), [bound([1, 2], 50)], HALF, (3,), id="E11"),
        pytest.param(
            devices(a_device(1, health=False), a_device(2), a_device(3)), [], "nv=1", (2,), id="E13"
        ),
        pytest.param(f8(), [bound([0, 2, 3, 4, 5, 6, 7])], "nv=1", (1,), id="E14-victim-gone"),
        pytest.param(f8(1), [bound([0])], "nv=1", (2,), id="the-neighbour-is-sick"),
        pytest.param(f8(), [bound([0, 1, 2, 3, 4, 5, 6, 7])], "nv=1", REFUSED, id="all-used"),
    ],
)
def test_on_a_node_in_use_a_pod_gets(
    node: Custom, old: list[Pod], text: str, minors: tuple[int, ...]
) -> None:
    assert chosen(node, [text], old=old) == [minors]


@pytest.mark.parametrize("_case", [pytest.param(0, id="E12")])
def test_most_allocated_prefers_the_card_in_use(_case: int) -> None:
    assert chosen(flat(4, "8Gi", first=1), [HALF], MOST, [bound([3, 4], 50)]) == [(3,)]


def test_a_node_that_does_not_publish_every_switch_is_flat() -> None:
    partly = devices(*(a_device(i, switch=str(i // 2), numa=0) for i in range(3)), a_device(3))
    assert chosen(partly, ["nv=1", "nv=2"]) == [(0,), (1, 2)]


def test_bytes_and_percent_never_promise_more_than_the_card() -> None:
    texts = ["sh=1 mem=100Mi"] * 3 + [f"sh=1 ratio={r}" for r in (99, 98, 1)]
    assert chosen(flat(1, "16Gi"), texts) == [*single(0, 0, 0), REFUSED, (0,), REFUSED]


def test_an_exclusive_pod_shuts_out_everybody() -> None:
    assert chosen(flat(1, "16Gi"), ["sh=1 ratio=100", "sh=1 mem=1Mi"]) == [(0,), REFUSED]


def test_the_least_allocated_node_comes_first() -> None:
    nodes = [a_node("n1"), a_node("n2")]
    cards = [devices(a_device(0), node="n1"), devices(a_device(0), a_device(1), node="n2")]
    pods = [a_koord_pod(HALF, name=f"p{i}") for i in range(3)]
    outcomes = plan(pods, nodes, customs=cards)
    assert [o.node for o in outcomes] == ["n2", "n1", "n2"]


def test_the_default_strategy_is_upstreams() -> None:
    assert KoordinatorOptions().scoring_strategy == LEAST
