"""The division of Koordinator's runtime quota, and its admission (docs/gangs.md)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tessera_core.gangs.fair_shares import QueueClaim, divide
from tessera_core.gangs.queues import KOORDINATOR_QUOTA
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gangs.setting import a_queue

QUOTA = "quota.scheduling.koordinator.sh/name"


def children(*of: Sequence[int]) -> list[QueueClaim]:
    """Weight, request and minimum of each; what it does not use is lent."""
    return [
        QueueClaim(name=f"b{n:02}", weight=weight, request=request, deserved=least)
        for n, (weight, request, least) in enumerate(of)
    ]


@pytest.mark.parametrize(
    ("total", "queues", "runtime"),
    [
        pytest.param(800, children((0, 800, 100), (5, 100, 0)), [100, 100], id="O7"),
        pytest.param(
            81,
            [
                *children(*[(1, 100, 8)] * 8, *[(1, 100, 7)] * 2),
                QueueClaim(name="donor", weight=1, request=0, deserved=3),
            ],
            [9, 9, 9, 8, 8, 8, 8, 8, 7, 7, 0],
            id="O8",
        ),
        pytest.param(
            100,
            children((40, 5, 10), (60, 20, 15), (50, 40, 20), (80, 70, 15)),
            [5, 20, 35, 40],
            id="O9",
        ),
        pytest.param(
            100,
            children((40, 5, 10), (60, 20, 15), (50, 40, 20), (0, 70, 15)),
            [5, 20, 40, 15],
            id="O10",
        ),
    ],
)
def test_a_total_is_divided(total: int, queues: list[QueueClaim], runtime: list[int]) -> None:
    assert list(divide(total, queues).values()) == runtime


def test_a_pod_within_the_maximum_is_placed() -> None:
    """P2"""
    quota = a_queue(
        "team", KOORDINATOR_QUOTA, metadata={"namespace": "default"},
        spec={"max": {"nvidia.com/gpu": 2}},
    )  # fmt: skip
    cluster = GangCluster({"n1": 4}, queues=[quota])
    fits, beyond = (
        a_pod(a_container({"nvidia.com/gpu": count}), labels={QUOTA: "team"}) for count in (2, 3)
    )
    assert cluster.queues.problem_of_pod(fits) == ""
    assert "allows 2 cards of nvidia, 0 used, 3 asked" in cluster.queues.problem_of_pod(beyond)
