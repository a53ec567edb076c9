"""Which node and which card comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tessera_core.dialect_kit.hami_format import policy_of
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.scoring.cards import usage_scores
from tessera_schema.requests import CardKey, Choice, NodeOrder, Weights
from tessera_testing.builders import a_card, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    CARD_POLICY,
    NODE_POLICY,
    NUMA_BIND,
    WEIGHTS,
    Gpu,
    a_gpu_node,
    holders,
    needs,
    picks,
    planned,
    rejected,
)

BINPACK, SPREAD = CardKey.BINPACK, CardKey.SPREAD
LOW, HIGH = CardKey.NUMA_LOW, CardKey.NUMA_HIGH


@pytest.mark.parametrize(
    ("policy", "numa_bind", "keys"),
    [
        ("", False, (SPREAD, HIGH)),
        ("binpack", False, (BINPACK, HIGH)),
        ("binpack", True, (LOW, BINPACK)),
        ("spread", True, (HIGH, SPREAD)),
        ("nonsense", False, (SPREAD, HIGH)),
        ("topology-aware", False, (SPREAD, HIGH)),
        ("numa", False, (HIGH,)),
        ("binpack,numa", False, (BINPACK, HIGH)),
        ("numa,binpack", False, (HIGH, BINPACK)),
        ("binpack,numa,spread", True, (HIGH, BINPACK, SPREAD)),
        ("numa , numa,spread", False, (HIGH, SPREAD)),
        ("mutex,topology-aware", False, (SPREAD,)),
        ("mutex,topology-aware", True, (HIGH, SPREAD)),
        ("mutex", False, (CardKey.FEWEST_SHARERS, HIGH)),
    ],
)
def test_a_policy_is_keys_in_order(
    policy: str, keys: tuple[CardKey, ...], *, numa_bind: bool
) -> None:
    made = policy_of({CARD_POLICY: policy}, numa_bind=numa_bind, topology=True)
    assert made.cards == keys
    assert made.highest_index_first
    assert made.same_numa is numa_bind
    assert made.idle_cards_only is ("mutex" in policy)
    assert made.choice is (Choice.LINKS if "topology-aware" in policy else Choice.ORDERED)


@pytest.mark.parametrize(
    ("notes", "order"),
    [
        ({}, NodeOrder.BINPACK),
        ({NODE_POLICY: "spread"}, NodeOrder.SPREAD),
        ({NODE_POLICY: " spread "}, NodeOrder.SPREAD),
        ({NODE_POLICY: "anything else"}, NodeOrder.BINPACK),
    ],
)
def test_nodes_are_packed_or_spread(notes: Mapping[str, str], order: NodeOrder) -> None:
    assert policy_of(notes).node is order


def first(notes: Mapping[str, str], *gpus: Gpu) -> str:
    pod = a_pod(needs({"gpu": 1, "mem": 100, "core": 10}), annotations=notes)
    return picks(planned(pod, *gpus))[0]


@pytest.mark.parametrize(
    ("notes", "gpus", "want"),
    [
        pytest.param(
            {CARD_POLICY: "binpack", NUMA_BIND: "true"},
            [Gpu("i", numa=1, used=5, used_mib=4000), Gpu("j", numa=0, used=1)],
            "j", id="ORD-04",
        ),
        pytest.param(
            {CARD_POLICY: "mutex"}, [Gpu("j"), Gpu("i", used=2)], "j", id="ORD-06"
        ),
        pytest.param(
            {CARD_POLICY: "numa,spread"},
            [Gpu("i", numa=1, used=8, used_mib=4000), Gpu("j", numa=0)],
            "i", id="ORD-08",
        ),
        pytest.param(
            {CARD_POLICY: "mutex,topology-aware"},
            [Gpu("i", mib=16384), Gpu("j", mib=4096)],
            "i", id="ORD-09",
        ),
        pytest.param(
            {CARD_POLICY: "spread"},
            [Gpu("P"), Gpu("Q", numa=1, used=8), Gpu("R", numa=1, used=5)],
            "P", id="ORD-14",
        ),
        pytest.param(
            {CARD_POLICY: "binpack"},
            [Gpu("P"), Gpu("Q", numa=1, used=8), Gpu("R", numa=1, used=5)],
            "Q", id="binpack",
        ),
        pytest.param({}, [Gpu("a", numa=1), Gpu("b", numa=0)], "a", id="equal: the higher NUMA"),
        pytest.param({}, [Gpu("a"), Gpu("b")], "b", id="equal: the higher index"),
        pytest.param(
            {CARD_POLICY: "spread,numa"}, [Gpu("a", numa=1), Gpu("b", numa=0)], "a", id="chain"
        ),
    ],
)  # fmt: skip
def test_the_first_card_is_the_last_of_the_originals_list(
    notes: Mapping[str, str], gpus: Sequence[Gpu], want: str
) -> None:
    assert first(notes, *gpus) == want


EACH = (10.0, 100.0, 100.0)


@pytest.mark.parametrize(
    ("used", "total", "want"),
    [
        pytest.param((0, 0, 0), (0, 8, 4096), 0, id="SCO-01"),
        pytest.param((2 + 1, 1 + 1, 2048 + 1024), (10, 4, 8192), 11.75, id="SCO-03"),
        pytest.param((2, 1 + 2, 1000 + 2000), (10, 10, 10000), 8.0, id="SCO-05"),
        pytest.param((1 + 1, 90, 10 + 40), EACH, 16, id="SCO-06 a"),
        pytest.param((7 + 1, 10, 20 + 40), EACH, 15, id="SCO-06 b"),
    ],
)
def test_a_card_scores_by_what_would_be_in_use(
    used: tuple[float, float, float], total: tuple[float, float, float], want: float
) -> None:
    assert usage_scores([used], [total], Weights()) == [pytest.approx(want)]


def test_weights_turn_the_order_of_cards() -> None:
    """SCO-06, end to end."""
    cards = (
        Gpu("a", mib=100, used=1, used_cores=90, used_mib=10),
        Gpu("b", mib=100, used=7, used_cores=10, used_mib=20),
    )

    def picked(weights: str) -> list[str]:
        notes = {CARD_POLICY: "binpack", WEIGHTS: weights}
        return picks(planned(a_pod(needs({"gpu": 1, "pct": 40}), annotations=notes), *cards))

    assert picked("slot=1,core=1,memory=1") == ["a"]
    assert picked("slot=5,core=1,memory=1") == ["b"]


def test_a_node_scores_by_what_is_in_use_before_the_pod() -> None:
    """SCO-09 and SCO-10."""
    fleet = Fleet()
    fleet.put("a", [a_card("a0", slots=100), a_card("a1", 1, slots=150, cores=200)])
    c, row = fleet.cards, fleet.rows["a"]
    c.sharers[row, :2], c.cores_used[row, :2] = [50, 75], [100_000, 200_000]
    c.memory_used[row, :2] = c.memory_total[row, :2]
    assert 10 * fleet.cards.usage()[row] == pytest.approx(25)
    fleet.put("b", [a_card("b0", slots=10, mib=8000)])
    row = fleet.rows["b"]
    c = fleet.cards
    c.sharers[row, 0], c.cores_used[row, 0] = 5, 50_000
    c.memory_used[row, 0] = c.memory_total[row, 0] // 2
    assert 10 * fleet.cards.usage()[row] == pytest.approx(15)


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param("spread", "j", id="ORD-11"),
        pytest.param("binpack", "i", id="ORD-12"),
    ],
)
def test_the_node_policy_chooses_the_node(policy: str, want: str) -> None:
    busy, quiet = Gpu("i0", used=2), Gpu("j0", used=1)
    nodes = [a_gpu_node(busy, name="i"), a_gpu_node(quiet, name="j")]
    bound = [*holders([busy], "i"), *holders([quiet], "j")]
    pod = a_pod(needs({"gpu": 1, "mem": 1}), annotations={NODE_POLICY: policy})
    assert plan([pod], nodes, bound=bound)[0].node == want


NODE1 = (
    Gpu("device1", mib=8000, used=1, used_mib=1000, used_cores=10),
    Gpu("device2", mib=8000),
)
NODE2 = (
    Gpu("device3", mib=8000),
    Gpu("device4", mib=8000, used=2, used_mib=5000, used_cores=40),
)


@pytest.mark.parametrize(
    ("node", "card", "init", "app", "want"),
    [
        pytest.param(
            "binpack", "spread", None, {"core": 20, "mem": 1000}, ("node2", ["device3"]),
            id="POL-02",
        ),
        pytest.param(
            "spread", "binpack", None, {"core": 20, "mem": 1000}, ("node1", ["device1"]),
            id="POL-03",
        ),
        pytest.param(
            "binpack", "binpack", {"core": 20, "mem": 5000}, {"core": 20, "mem": 4000},
            ("node2", ["device3", "device3"]), id="POL-05",
        ),
    ],
)  # fmt: skip
def test_node_and_card_policies_are_independent(
    node: str, card: str, init: dict[str, int] | None, app: dict[str, int],
    want: tuple[str, list[str]],
) -> None:  # fmt: skip
    pod = a_pod(
        needs({"gpu": 1, **app}),
        init=(needs({"gpu": 1, **init}),) if init else (),
        annotations={NODE_POLICY: node, CARD_POLICY: card},
    )
    nodes = [a_gpu_node(*NODE1, name="node1"), a_gpu_node(*NODE2, name="node2")]
    (outcome,) = plan([pod], nodes, bound=[*holders(NODE1, "node1"), *holders(NODE2, "node2")])
    assert (outcome.node, picks(outcome)) == want


def test_the_clusters_policies_hold_where_the_pod_is_silent() -> None:
    config = {"hami": {"node_scheduler_policy": "spread", "gpu_scheduler_policy": "binpack"}}
    nodes = [a_gpu_node(*NODE1, name="node1"), a_gpu_node(*NODE2, name="node2")]
    (outcome,) = plan(
        [a_pod(needs({"gpu": 1, "mem": 1000, "core": 20}))], nodes,
        bound=[*holders(NODE1, "node1"), *holders(NODE2, "node2")], config=config,
    )  # fmt: skip
    assert (outcome.node, picks(outcome)) == ("node1", ["device1"])


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        pytest.param(" memory = 3, slot = 1, core = 0 ", Weights(1, 0, 3), id="WGT-01"),
        pytest.param("slot=0,core=0,memory=1", Weights(0, 0, 1), id="zeros"),
        pytest.param("slot=1,core=1,memory=1", Weights(), id="default"),
    ],
)
def test_weights_are_read(text: str, weights: Weights) -> None:
    assert policy_of({WEIGHTS: text}).weights == weights


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("slot=1,memory=3", id="WGT-02"),
        pytest.param("slot=1,slot=2,memory=3", id="WGT-03"),
        pytest.param("slot=1,core=-1,memory=3", id="WGT-04"),
        "slot=0,core=0,memory=0",
        "slot=1,core=1.5,memory=3",
        "slot=1,core=1,memory=3,extra=1",
        "slot=1,core=1,memory=3,",
        "slot=1,core=1,memory=",
        "slot=1,core=1,memory=99999999999999999999999",
        "slot=1;core=1;memory=1",
        "",
    ],
)
def test_malformed_weights_are_refused(text: str) -> None:
    answer = rejected(a_pod(needs({"gpu": 1}), annotations={WEIGHTS: text}))
    assert answer.field == f"metadata.annotations[{WEIGHTS}]"
    assert "slot=1,core=1,memory=3" in answer.remedy
