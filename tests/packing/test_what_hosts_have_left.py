"""Processor and memory of hosts: what pods request is taken off what nodes have."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import NOTHING, Host, of_node, of_pod
from tessera_core.kube.pod_requests import pod_requests
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_schema.kube import Node, Pod
from tessera_testing.builders import a_card
from tests.packing.fleets import GIB

BIG = Host(64000, 256 * GIB)


def a_pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    listed = [{"name": f"c{i}", "resources": c} for i, c in enumerate(containers)]
    return msgspec.convert({"spec": {"containers": listed, **spec}}, Pod)


quantities = st.sampled_from(["1", "250m", "0.5", "2", 3])
sizes = st.sampled_from(["1Gi", "512Mi", "1000", 7])
amounts = st.fixed_dictionaries({}, optional={"cpu": quantities, "memory": sizes})
resources = st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts})


@given(
    containers=st.lists(resources, max_size=3),
    first=st.lists(resources, max_size=2),
    overhead=amounts,
    whole=amounts,
)
def test_a_pod_counts_as_kubernetes_counts_it(
    containers: list[Any], first: list[Any], overhead: Any, whole: Any
) -> None:
    inits = [{"name": f"i{n}", "resources": r} for n, r in enumerate(first)]
    pod = a_pod(*containers, initContainers=inits, overhead=overhead, resources={"requests": whole})
    total = pod_requests(pod)
    assert of_pod(pod) == Host(total.get("cpu", 0), total.get("memory", 0))


def test_what_cannot_be_read_counts_as_nothing() -> None:
    assert of_pod(a_pod({"requests": {"cpu": "much"}}, {"requests": {"cpu": "1"}})) == NOTHING
    for said in ({}, {"cpu": "4"}, {"cpu": "four", "memory": "8Gi"}, {"cpu": "0", "memory": "0"}):
        assert of_node(msgspec.convert({"status": {"allocatable": said}}, Node)) is None


def test_a_node_has_what_is_allocatable() -> None:
    status = {
        "allocatable": {"cpu": "3920m", "memory": "15Gi"},
        "capacity": {"cpu": "4", "memory": "16Gi"},
    }
    assert of_node(msgspec.convert({"status": status}, Node)) == Host(3920, 15 * GIB)


def free(book: HostCapacity, fleet: Fleet, node: str) -> tuple[float, float]:
    hosts = book.columns(fleet)
    assert hosts is not None
    row = fleet.rows[node]
    return float(hosts.cpu_free[row]), float(hosts.memory_free[row])


def a_fleet(*names: str) -> Fleet:
    fleet = Fleet()
    for name in names:
        fleet.put(name, [a_card("card-0", 0)])
    return fleet


def test_what_pods_hold_is_missing_until_they_end() -> None:
    fleet, book = a_fleet("a", "b"), HostCapacity()
    assert book.columns(fleet) is None
    book.node("a", BIG)
    book.hold("u", "a", Host(4000, GIB))
    book.hold("u", "a", Host(4000, GIB))
    assert free(book, fleet, "a") == (60000, 255 * GIB)
    assert free(book, fleet, "b") == (np.inf, np.inf)
    book.hold("u", "a", Host(5000, GIB))
    assert free(book, fleet, "a") == (59000, 255 * GIB)
    book.release("u")
    book.release("u")
    assert free(book, fleet, "a") == BIG


def test_a_host_that_is_overbooked_has_nothing_left() -> None:
    fleet, book = a_fleet("a"), HostCapacity()
    book.node("a", Host(1000, GIB))
    book.hold("u", "a", Host(4000, 2 * GIB))
    assert free(book, fleet, "a") == (0, 0)


changes = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from("abcd"), st.sampled_from([None, BIG])),
        st.tuples(st.just("nodes"), st.just(""), st.sets(st.sampled_from("abcd"))),
        st.tuples(st.just("hold"), st.sampled_from("abcd"), st.integers(0, 5)),
        st.tuples(st.just("release"), st.just(""), st.integers(0, 5)),
        st.tuples(st.just("only"), st.just(""), st.sets(st.integers(0, 5))),
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.none()),
        st.tuples(st.just("remove"), st.sampled_from("abcd"), st.none()),
        st.tuples(st.just("look"), st.just(""), st.none()),
    ),
    max_size=30,
)


class Reported:
    """A book, and what it was given, kept as plainly as can be."""

    def __init__(self) -> None:
        self.book, self.fleet = HostCapacity(), a_fleet("a", "b")
        self.totals: dict[str, Host] = {}
        self.pods: dict[str, tuple[str, Host]] = {}

    def of_nodes(self, kind: str, node: str, what: Any) -> None:
        if kind == "node":
            self.book.node(node, what)
            self.totals.pop(node, None)
            self.totals |= {} if what is None else {node: what}
        elif kind == "nodes":
            self.totals = {name: Host(len(what), GIB) for name in sorted(what)}
            self.book.nodes(dict(self.totals))
        elif kind == "put":
            self.fleet.put(node, [a_card("card-0", 0)])
        elif kind == "remove":
            self.fleet.remove(node)

    def of_pods(self, kind: str, node: str, what: Any) -> None:
        if kind == "hold":
            self.pods[f"u{what}"] = (node, Host(100 * what, what))
            self.book.hold(f"u{what}", *self.pods[f"u{what}"])
        elif kind == "release":
            self.pods.pop(f"u{what}", None)
            self.book.release(f"u{what}")
        elif kind == "only":
            self.pods = {uid: held for uid, held in self.pods.items() if int(uid[1:]) in what}
            self.book.only({f"u{n}" for n in what})
        elif kind == "look":
            self.book.columns(self.fleet)

    def afresh(self) -> HostCapacity:
        fresh = HostCapacity()
        fresh.nodes(dict(self.totals))
        for uid, (node, host) in self.pods.items():
            fresh.hold(uid, node, host)
        return fresh


@given(changes)
def test_columns_maintained_through_any_changes_equal_columns_made_afresh(
    steps: list[tuple[str, str, Any]],
) -> None:
    reported = Reported()
    for step in steps:
        reported.of_nodes(*step)
        reported.of_pods(*step)
    found, afresh = (book.columns(reported.fleet) for book in (reported.book, reported.afresh()))
    assert (found is None) == (afresh is None) == (not reported.totals)
    if found is not None and afresh is not None:
        assert all(np.array_equal(a, b) for a, b in zip(found, afresh, strict=True))
