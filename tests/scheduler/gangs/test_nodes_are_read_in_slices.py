"""Nodes that come or go while gangs are searched for are read in slices, and searches go on with
the nodes as they were before."""

from __future__ import annotations

from typing import Final

from tessera_core.kube.host_requests import Host
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.slices import at_once
from tessera_runtime.kube.reflector import WatchEventType
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_schema.kube import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Resources,
)

NODES: Final = 50
CORES: Final = 4
ALL: Final = Pod(spec=PodSpec(containers=(Container(
    name="c", resources=Resources(requests={"cpu": str(CORES)}),
),)))  # fmt: skip
"""Asks for all that a node has."""
ONE_CORE: Final = Host(1000, 0)


def node(name: str, *, closed: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={"zone": "a"}),
        spec=NodeSpec(unschedulable=closed),
        status=NodeStatus(allocatable={"cpu": str(CORES)}),
    )


def many() -> GangNodes:
    """Nodes with a pod each, prepared, and one that came after that."""
    nodes = GangNodes(frozenset())
    nodes.on_list([node(f"n{at:02}") for at in range(NODES)], 0, 0)
    for at in range(NODES):
        nodes.hold(f"uid-{at}", f"n{at:02}", ONE_CORE)
    at_once(nodes.prepare())
    nodes.on_event(WatchEventType.ADDED, node("new"), 0)
    return nodes


def room(filters: KubeSchedulerFilters) -> set[str]:
    """The nodes on which nothing runs."""
    return {n for n, fits in zip(filters.names, filters.fitting(ALL), strict=True) if fits}


def test_a_search_goes_on_with_the_nodes_before_until_the_new_ones_are_prepared() -> None:
    nodes = many()
    before, version = nodes.filters(), nodes.version
    assert not room(before)
    assert nodes.filters() is before
    assert "new" not in nodes.names() | nodes.domains("zone")["a"]
    assert len(list(nodes.prepare())) > NODES
    assert room(nodes.filters()) == {"new"}
    assert "new" in nodes.names() & nodes.domains("zone")["a"]
    assert nodes.version > version, "a gang that found no room is searched for again"


def test_nothing_is_made_where_no_node_came_or_went() -> None:
    nodes = many()
    at_once(nodes.prepare())
    version = nodes.version
    assert not list(nodes.prepare())
    assert nodes.version == version
    nodes.on_event(WatchEventType.MODIFIED, node("new", closed=True), 0)
    assert not list(nodes.prepare())
    assert not room(nodes.filters())


def test_what_changes_between_slices_counts() -> None:
    nodes = many()
    work = nodes.prepare()
    next(work)
    nodes.release("uid-1")
    nodes.hold("more", "new", ONE_CORE)
    nodes.hold("uid-2", "n03", ONE_CORE)
    nodes.on_event(WatchEventType.MODIFIED, node("n01", closed=True), 0)
    at_once(work)
    assert not list(nodes.prepare())
    assert room(nodes.filters()) == {"n02"}
    nodes.on_event(WatchEventType.MODIFIED, node("n01"), 0)
    assert room(nodes.filters()) == {"n01", "n02"}


def test_a_node_that_comes_between_slices_is_in_the_next_ones() -> None:
    nodes = many()
    work = nodes.prepare()
    next(work)
    nodes.on_event(WatchEventType.ADDED, node("last"), 0)
    nodes.on_event(WatchEventType.DELETED, node("n00"), 0)
    at_once(work)
    assert room(nodes.filters()) == {"new"}
    assert "n00" not in nodes.names()
    assert list(nodes.prepare())
    assert room(nodes.filters()) == {"new", "last"}


def test_of_two_that_are_made_at_the_same_time_the_newer_stays() -> None:
    nodes = many()
    older = nodes.prepare()
    next(older)
    nodes.on_event(WatchEventType.ADDED, node("last"), 0)
    at_once(nodes.prepare())
    at_once(older)
    assert room(nodes.filters()) == {"new", "last"}


def test_one_that_is_abandoned_leaves_nothing() -> None:
    nodes = many()
    work = nodes.prepare()
    next(work)
    work.close()
    nodes.hold("more", "new", ONE_CORE)
    assert list(nodes.prepare())
    assert not room(nodes.filters())
