"""Whole nodes are kept back where what pods ask of hosts leaves them short of processor."""

from __future__ import annotations

import pytest

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import Host
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.state import PackingState
from tessera_schema.cards import MIB
from tessera_schema.requests import Request
from tessera_testing.builders import a_card
from tests.packing.fleets import GIB, a_pod

HOST = Host(80_000, 384 * GIB)
"""Ten cores for each card."""
WHOLE = Request(vendor="acme", dialect="acme", memory_percent=100, exclusive=True)
EIGHT = Request(vendor="acme", dialect="acme", memory_percent=100, exclusive=True, count=8)


class Cluster:
    """Four nodes of eight cards, and a past in which each card was asked for with some cores."""

    def __init__(self, host: Host | None = HOST, *, reserve: bool | None = None) -> None:
        self.fleet, self.hosts = Fleet(), HostCapacity()
        self.state = PackingState(reserve=reserve)
        for name in ("a", "b", "c", "d"):
            self.fleet.put(name, [a_card(f"card-{i}", i, mib=16000) for i in range(8)])
            self.hosts.node(name, host)

    def short(self, cores: float) -> bool:
        """What is learned where each card is asked for with that many cores."""
        history = History()
        for _ in range(60):
            history.add(a_pod(WHOLE, cpu_milli=int(1000 * cores)), 0)
        for _ in range(8):
            history.add(a_pod(EIGHT, cpu_milli=int(8000 * cores)), 0)
        columns = self.hosts.columns(self.fleet)
        self.state.adopt(learn(*self.state.lesson(self.fleet, history, 0, columns)))
        return self.state.forecast.short


@pytest.mark.parametrize(("cores", "short"), [(2, False), (8.9, False), (9.1, True), (20, True)])
def test_hosts_are_short_where_cards_are_requested_with_more_than_nine_tenths(
    cores: float, *, short: bool
) -> None:
    assert Cluster().short(cores) is short


def test_pods_without_cards_take_from_the_same_hosts() -> None:
    cluster = Cluster()
    assert not cluster.short(7)
    cluster.hosts.hold("web", "a", Host(80_000, GIB))
    assert cluster.short(7)
    cluster.hosts.release("web")
    assert not cluster.short(7)


def test_a_pod_with_a_card_counts_once() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.hosts.hold(name, name, Host(70_000, GIB))
        for i in range(8):
            cluster.fleet.charge(name, f"card-{i}", Charge(16000 * MIB, 0, 1, 1))
    assert not cluster.short(7)


def test_hosts_that_are_not_known_are_not_short() -> None:
    assert not Cluster(host=None).short(50)


@pytest.mark.parametrize(("reserve", "kept"), [(None, True), (True, True), (False, False)])
def test_whole_nodes_are_reserved_then(reserve: bool | None, *, kept: bool) -> None:  # noqa: FBT001  (a parameter)
    cluster = Cluster(reserve=reserve)
    assert cluster.short(12)
    columns = cluster.state.reserved(1)
    assert bool(columns) is kept
    assert not kept or columns[0].sum() > 0


@pytest.mark.parametrize(("reserve", "kept"), [(None, False), (True, True)])
def test_none_is_reserved_while_there_is_enough(reserve: bool | None, *, kept: bool) -> None:  # noqa: FBT001  (a parameter)
    cluster = Cluster(reserve=reserve)
    assert not cluster.short(5)
    assert bool(cluster.state.reserved(1)) is kept
