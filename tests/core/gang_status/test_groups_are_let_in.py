"""Which PodGroups that are Pending may enter their queue: case GD1 and what is next to it."""

from __future__ import annotations

import pytest

from tessera_core.gang_status.enqueue import EnqueueRoom
from tests.core.gang_status.builders import a_group, a_queue

CPU = 1000
"""Thousandths."""
LARGE = {"cpu": 100 * CPU, "memory": 100, "nvidia.com/gpu": 8}


def test_gd1_minimum_resources_are_measured_at_what_the_queue_allows_in_what_they_name() -> None:
    queues = [
        a_queue("q1", capability={"cpu": 2, "memory": 2}),
        a_queue("q3", capability={"cpu": 3, "memory": 3}, state="Closed"),
    ]
    room = EnqueueRoom(queues, {"q1": {"cpu": 1 * CPU, "memory": 3}}, LARGE)
    wanted = {
        "a": a_group(queue="q1", minResources={"cpu": 1}),
        "b": a_group(queue="q1", minResources={"cpu": 1, "memory": 1}),
        "c": a_group(queue="q3", minResources={"cpu": 1}),
        "d": a_group(queue="q1"),
    }
    phases = {}
    for name, group in wanted.items():
        phases[name] = "Pending" if room.problem(group) else "Inqueue"
        if phases[name] == "Inqueue":
            room.hold(group, {})
    assert phases == {"a": "Inqueue", "b": "Pending", "c": "Pending", "d": "Inqueue"}
    assert "queue q3 is Closed" in room.problem(wanted["c"])
    assert room.problem(wanted["b"]).startswith("queue q1 allows 2 cpu, 2 used or promised")


def test_what_other_groups_were_let_in_for_counts_until_their_pods_count_themselves() -> None:
    queues = [a_queue("q", capability={"nvidia.com/gpu": 4})]
    three = a_group(queue="q", minResources={"nvidia.com/gpu": 3})
    two = a_group(queue="q", minResources={"nvidia.com/gpu": 2})
    room = EnqueueRoom(queues, {}, LARGE)
    room.hold(three, {})
    assert "allows 4 nvidia.com/gpu, 3 used or promised, 2 asked" in room.problem(two)
    room = EnqueueRoom(queues, {"q": {"nvidia.com/gpu": 2}}, LARGE)
    room.hold(three, {"nvidia.com/gpu": 2})
    assert room.problem(two)
    room = EnqueueRoom(queues, {}, LARGE)
    room.hold(three, {"nvidia.com/gpu": 3})
    assert room.problem(two) == ""


def test_what_the_cluster_has_and_what_others_are_guaranteed_bounds_a_queue() -> None:
    queues = [
        a_queue("q"),
        a_queue("other", guarantee={"resource": {"nvidia.com/gpu": 6}}),
    ]
    room = EnqueueRoom(queues, {}, LARGE)
    assert room.problem(a_group(queue="q", minResources={"nvidia.com/gpu": 2})) == ""
    assert room.problem(a_group(queue="q", minResources={"nvidia.com/gpu": 3}))
    assert room.problem(a_group(queue="other", minResources={"nvidia.com/gpu": 8})) == ""


def test_a_parent_bounds_what_its_children_have_together() -> None:
    queues = [
        a_queue("root"),
        a_queue("org", capability={"cpu": 4}),
        a_queue("one", parent="org"),
        a_queue("two", parent="org"),
    ]
    room = EnqueueRoom(queues, {"one": {"cpu": 3 * CPU}}, LARGE)
    assert "queue org allows 4 cpu" in room.problem(a_group(queue="two", minResources={"cpu": 2}))
    assert room.problem(a_group(queue="two", minResources={"cpu": 1})) == ""


def test_what_no_node_offers_is_bounded_by_the_queue_alone() -> None:
    asked = a_group(queue="q", minResources={"volcano.sh/vgpu-number": 2})
    assert EnqueueRoom([a_queue("q")], {}, LARGE).problem(asked) == ""
    bounded = a_queue("q", capability={"volcano.sh/vgpu-number": 1})
    assert EnqueueRoom([bounded], {}, LARGE).problem(asked)


def test_a_queue_that_does_not_exist_takes_nobody_but_default_needs_no_object() -> None:
    room = EnqueueRoom([a_queue("q")], {}, LARGE)
    assert room.problem(a_group(queue="absent")).startswith("queue absent does not exist")
    assert room.problem(a_group()) == ""


def test_where_no_queues_are_read_everybody_is_let_in() -> None:
    assert EnqueueRoom([], {}, LARGE).problem(a_group(queue="q", minResources={"cpu": 1})) == ""


@pytest.mark.parametrize("parent", ["q", "p"])
def test_queues_in_a_circle_end(parent: str) -> None:
    queues = [a_queue("q", parent=parent), a_queue("p", parent="q")]
    room = EnqueueRoom(queues, {"q": {"cpu": CPU}}, LARGE)
    assert room.problem(a_group(queue="q", minResources={"cpu": 1})) == ""
