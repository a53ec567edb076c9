"""Volcano's gangs and its proportion of queues, where the scheduler starts gangs whole
(docs/gangs.md). Rows that say CPU are tried with cards, which are what queues divide here."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_core.gangs.fair_shares import QueueClaim, divide
from tessera_core.gangs.gang import Gang
from tessera_testing.builders import a_container
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import gated, members
from tests.core.gangs.setting import a_group, a_member, a_queue


@pytest.mark.parametrize(
    ("queues", "entitled"),
    [
        pytest.param(
            [
                QueueClaim(name="q1", request=8, weight=1),
                QueueClaim(name="q2", request=2, weight=3),
            ],
            [6, 2],
            id="O1",
        ),
        pytest.param(
            [
                QueueClaim(name="q1", request=8, weight=1),
                QueueClaim(name="q2", request=8, weight=1, cap=2),
            ],
            [6, 2],
            id="O2",
        ),
        pytest.param(
            [
                QueueClaim(name="q1", request=8, weight=1),
                QueueClaim(name="q2", request=0, weight=1, guarantee=3),
            ],
            [5, 3],
            id="O3",
        ),
    ],
)
def test_eight_cards_are_divided_by_weight(queues: list[QueueClaim], entitled: list[int]) -> None:
    assert list(divide(8, queues).values()) == entitled


def test_a_role_without_room_starts_nobody() -> None:
    """N2"""
    group = a_group("g", minMember=2, minTaskMember={"master": 2, "worker": 0})
    masters = [a_member(f"m{n}", "g", role="master") for n in (1, 2)]
    workers = [a_member(f"w{n}", "g", role="worker") for n in (1, 2)]
    cluster = started(GangCluster({"n1": 1}, [group]), [*masters, *workers])
    assert cluster.bound() == []
    assert list(cluster.ledger.entries()) == []


def test_a_minimum_of_one_is_no_gang() -> None:
    """N3"""
    group = a_group("g", minMember=1)
    master = a_member("master", "g", role="master")
    large = (a_container({"nvidia.com/gpu": 9}),)
    master = replace(master, spec=replace(master.spec, containers=large))
    worker = a_member("worker", "g", role="worker")
    cluster = started(GangCluster({"n1": 1}, [group]), [master, worker])
    assert cluster.bound() == ["worker"]


def single(name: str, queue: str) -> Gang:
    return a_group(name, minMember=0, queue=queue)


def test_a_job_that_never_fits_keeps_no_other_queue_back() -> None:
    """N5"""
    groups = [a_group("a", minMember=3, queue="c1"), single("b", "c2")]
    cluster = GangCluster({"n1": 2}, groups, queues=[a_queue("c1"), a_queue("c2")])
    cluster.create(*gated(*members("a", 1, 2, 3), *members("b", 1)))
    cluster.run(seconds=20)
    assert cluster.bound() == ["b1"]


def test_one_member_too_many_leaves_nothing_behind() -> None:
    """N9"""
    group = a_group("g", minMember=5)
    cluster = started(GangCluster({"n1": 4}, [group]), members("g", 1, 2, 3, 4, 5))
    assert cluster.bound() == []
    assert cluster.grants == {}
    assert list(cluster.ledger.entries()) == []
