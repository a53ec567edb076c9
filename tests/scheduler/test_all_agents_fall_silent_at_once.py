"""All agents fall silent at once where the API server does not take their renewals: nobody waits
while the ledger learns of it, and the log has one line."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.plugin_requests import StartingPod, plugin_requests
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.slices import ITEMS, at_once
from tessera_runtime.kube.heartbeat import agent_lease_name
from tessera_runtime.kube.lease_object import LeaseSpec
from tessera_runtime.kube.timestamps import format_time
from tessera_scheduler.alerts import Alert
from tessera_scheduler.cache.agent_leases import NAMED, AgentLease, AgentLeases
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.kube import ObjectMeta
from tessera_testing.clock import START
from tests.scheduler.fake_cluster import REGISTRY, cards_on

NODES: Final = 10 * ITEMS
LASTS_S: Final = 40.0


class StoppedClock:
    """The wall's time, which none of this depends on."""

    def time(self) -> float:
        return START

    def time_ns(self) -> int:
        return round(START * 1e9)


class Watch:
    """The watch of the Leases of many nodes' agents."""

    def __init__(self) -> None:
        self.ledger, self.events, self.alerts = Ledger(), PodEvents(), list[Alert]()
        self.in_flight = InFlightPods(plugin_requests(REGISTRY), lambda _: "")
        self.nodes = [f"n{at:03}" for at in range(NODES)]
        self.freed = 0
        self.events.freed.subscribe(self._on_freed)
        self.leases = AgentLeases(
            ledger=self.ledger, in_flight=self.in_flight, raise_alert=self.alerts.append,
            pod_events=self.events, gauge=SchedulerMetrics().silent_agents, clock=StoppedClock(),
        )  # fmt: skip
        for node in self.nodes:
            self.ledger.put_node(node, cards_on(node))
            self.leases.on_node(node, {"nvidia": LASTS_S})
        self.renew(0)

    def _on_freed(self) -> None:
        self.freed += 1

    @property
    def silent(self) -> int:
        """Nodes whose agent is silent, as the ledger knows."""
        return len(self.ledger.fleet.silent)

    def renew(self, at_s: float) -> None:
        """All agents have renewed their Leases, then."""
        spec = LeaseSpec(renew_time=format_time(START + at_s))
        at_once(self.leases.on_list([
            AgentLease(ObjectMeta(name=agent_lease_name("nvidia", node)), spec)
            for node in self.nodes
        ], 0.0, 0.0))  # fmt: skip

    def wait(self) -> None:
        """The watch delivers for a minute, and no agent renews its Lease."""
        for at in range(7):
            self.leases.agents.deliver(10.0 * at)


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of the log lines of that event."""
    return [
        record.tessera_fields  # type: ignore[attr-defined]
        for record in caplog.records
        if record.msg == event
    ]


def test_the_ledger_learns_of_it_in_slices_of_some_nodes() -> None:
    watch = Watch()
    watch.wait()
    seen = [watch.silent for _ in watch.leases.expire()]
    assert seen == list(range(0, NODES, ITEMS))
    assert watch.silent == NODES


def test_an_agent_that_renews_meanwhile_is_not_silent() -> None:
    watch = Watch()
    watch.renew(1)
    watch.wait()
    work = watch.leases.expire()
    next(work)
    watch.renew(2)
    at_once(work)
    assert not watch.silent


def test_what_was_left_is_brought_by_the_next_sweep() -> None:
    watch = Watch()
    watch.wait()
    work = watch.leases.expire()
    next(work)
    next(work)
    work.close()
    assert watch.silent == ITEMS
    at_once(watch.leases.expire())
    assert watch.silent == NODES


def test_pods_are_tried_again_when_they_are_back() -> None:
    watch = Watch()
    watch.wait()
    at_once(watch.leases.expire())
    assert not watch.freed
    watch.renew(1)
    watch.renew(2)
    assert not watch.silent
    assert watch.freed


def test_the_log_has_a_count_and_the_first_names(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watch = Watch()
    watch.wait()
    at_once(watch.leases.expire())
    watch.renew(1)
    watch.renew(2)
    (silent,), (back,) = lines(caplog, "agents silent"), lines(caplog, "agents back")
    assert silent["count"] == back["count"] == NODES
    assert silent["first"] == back["first"] == [f"nvidia of {n}" for n in watch.nodes[:NAMED]]
    assert "the nvidia agent of n000 has not renewed its Lease for" in silent["why"]


def test_each_pod_that_has_not_started_has_an_alert() -> None:
    watch = Watch()
    for node in watch.nodes[:: ITEMS // 2]:
        start = StartingPod(asks=frozenset())
        watch.in_flight.observe(f"uid-{node}", f"team/on-{node}", node, start, 0.0)
    watch.wait()
    at_once(watch.leases.expire())
    found = {alert.node: alert for alert in watch.alerts}
    assert list(found) == watch.nodes[:: ITEMS // 2]
    assert all(alert.name == f"on-{node}" for node, alert in found.items())
    assert f"the nvidia agent of {watch.nodes[0]}" in found[watch.nodes[0]].text
