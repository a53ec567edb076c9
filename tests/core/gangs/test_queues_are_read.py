"""Queues of Volcano, of Koordinator and plain ElasticQuotas become one kind of queue."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queues import (
    KOORDINATOR_QUOTA,
    PLAIN_QUOTA,
    VOLCANO_QUEUE,
    QueueDimension,
    QueueOrigin,
)
from tests.core.gangs.setting import a_queue

CPU = QueueDimension("", "cpu")
CARDS = QueueDimension("nvidia", "cards")
LABEL = "quota.scheduling.koordinator.sh/"


def test_a_queue_of_volcano() -> None:
    queue = a_queue(
        "q", spec={
            "weight": 3, "capability": {"cpu": "2", "nvidia.com/gpu": 8},
            "deserved": {"cpu": "500m"}, "guarantee": {"resource": {"cpu": 1}},
            "parent": "root", "dequeueStrategy": "fifo",
        },
    )  # fmt: skip
    assert queue.cap == {CPU: 2000, CARDS: 8}
    assert (queue.deserved, queue.guarantee) == ({CPU: 500}, {CPU: 1000})
    assert (queue.parent, queue.weight, queue.fifo, queue.open) == ("", 3, True, True)
    assert not a_queue("q", status={"state": "Closing"}).open


def test_an_elastic_quota_of_koordinator() -> None:
    spec = {"min": {"cpu": 1}, "max": {"cpu": 4}}
    meta = {
        "namespace": "team",
        "labels": {LABEL + "parent": "all", LABEL + "allow-lent-resource": "false"},
        "annotations": {LABEL + "shared-weight": '{"cpu": 2}'},
    }
    queue = a_queue("q", KOORDINATOR_QUOTA, metadata=meta, spec=spec)
    assert (queue.deserved, queue.guarantee) == ({CPU: 1000}, {CPU: 1000})
    assert (queue.cap, queue.weights) == ({CPU: 4000}, {CPU: 2000})
    assert (queue.parent, queue.namespace) == ("all", "team")
    plain = a_queue("q", PLAIN_QUOTA, spec=spec)
    assert (plain.guarantee, plain.weights) == ({}, {CPU: 4000})


@pytest.mark.parametrize(
    ("origin", "raw", "field", "remedy"),
    [
        (VOLCANO_QUEUE, {"spec": {"weight": 0}}, "spec.weight", "1 to 65535"),
        (VOLCANO_QUEUE, {"spec": {"capability": {"cpu": "x"}}}, "spec.capability[cpu]", "quantity"),
        (VOLCANO_QUEUE, {"spec": {"deserved": {"cpu": -1}}}, "spec.deserved[cpu]", "0 or more"),
        (VOLCANO_QUEUE, {"spec": {"dequeueStrategy": "lifo"}}, "spec.dequeueStrategy", "fifo"),
        (VOLCANO_QUEUE, {"spec": {"priority": -1}}, "spec.priority", "0 or more"),
        (
            KOORDINATOR_QUOTA,
            {"spec": {"min": {"cpu": 2}, "max": {"cpu": 1}}},
            "spec.min",
            "at most spec.max",
        ),
        (
            KOORDINATOR_QUOTA,
            {"metadata": {"annotations": {LABEL + "shared-weight": "2"}}},
            f"metadata.annotations[{LABEL}shared-weight]",
            "write JSON",
        ),
    ],
)
def test_a_queue_that_makes_no_sense_is_refused(
    origin: QueueOrigin, raw: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(BadLimit) as refused:
        a_queue("q", origin, **raw)
    assert refused.value.field == field
    assert remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leaf", ""),
        ("default", ""),
        ("none", "queue none does not exist: create it, or name one of"),
        ("top", "Queue top is a parent and takes no pods: name leaf"),
        ("shut", "Queue shut is Closed: open it, or name another queue"),
        ("below", "Queue shut is Closed"),
        ("orphan", "its parent gone does not exist"),
        ("c1", "queues are in a circle: c1 in c2 in c1: give one of them another parent"),
    ],
)
def test_where_pods_cannot_go(name: str, said: str) -> None:
    parents = {"leaf": "top", "c1": "c2", "c2": "c1", "orphan": "gone", "top": ""}
    queues = [a_queue(name, spec={"parent": parent}) for name, parent in parents.items()]
    queues += [
        a_queue("shut", spec={}, status={"state": "Closed"}),
    ]
    if name == "below":
        queues.append(a_queue("below", spec={"parent": "shut"}))
    found = QueueTree(queues).problem(name)
    assert said in found
    assert bool(said) is bool(found)


def test_caps_hold_up_the_tree() -> None:
    tree = QueueTree([
        a_queue("top", spec={"capability": {"nvidia.com/gpu": 4}}),
        a_queue("leaf", spec={"parent": "top", "capability": {"nvidia.com/gpu": 8}}),
    ])  # fmt: skip
    used = {"top": {CARDS: 2.0}, "leaf": {CARDS: 1.0}}
    assert tree.over("leaf", lambda name: used[name], {CARDS: 2}) == ""
    assert tree.over("leaf", lambda name: used[name], {CARDS: 3}) == (
        "Queue top allows 4 cards of nvidia, 2 used, 3 asked"
    )
    assert tree.below("top") == {"top", "leaf"}
