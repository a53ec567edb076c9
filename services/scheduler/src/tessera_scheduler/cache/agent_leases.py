"""The Leases of agents, brought to the ledger: no pod is placed on a silent agent's cards.

The leader renews a Lease of its own next to them: as long as that one arrives, an agent's silence
is the agent's and not the watch's (`tessera_core.inventory.agent_liveness`). What runs on the cards
keeps them; pods that are bound there and have not started wait until the agent is back, and an
Event says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Final, NoReturn

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_core.inventory.agent_liveness import AgentLiveness, AgentName, AgentRenewal
from tessera_core.ledger.ledger import Ledger
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.slices import ITEMS, Slices, for_each
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.heartbeat import Heartbeat, HeartbeatSettings, agent_of_lease
from tessera_runtime.kube.lease_object import LeaseSpec
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.kube.timestamps import parse_time
from tessera_runtime.metrics import Gauge
from tessera_scheduler.alerts import Alert, AlertReason
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.settings import AgentLeaseSettings
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node, ObjectMeta

PULSE: Final = "scheduler"
"""The leader's own Lease next to those of the agents."""
NAMED: Final = 5
"""Agents that a log line names; of all others it has the count: all fall silent at once where the
API server does not take their renewals."""
_log: Final = logs.named("tessera.scheduler.agents")


class AgentLease(Struct, frozen=True):
    """What is read of a Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class _Announced(Struct, frozen=True):
    heartbeat_s: float | UnsetType = UNSET


_lease: Final = decoder(AgentLease)
_announced: Final = decoder(_Announced)


def heartbeats_of(node: Node) -> Mapping[str, float]:
    """Vendor -> seconds for which a renewal of its agent's Lease counts, as the node announces."""
    found: dict[str, float] = {}
    for key, text in node.metadata.annotations.items():
        if key.startswith(CARDS_PREFIX):
            with suppress(msgspec.DecodeError):  # reported by the reader of its cards
                lasts_s = _announced(text).heartbeat_s
                if lasts_s is not UNSET and lasts_s > 0:
                    found[key.removeprefix(CARDS_PREFIX)] = lasts_s
    return found


def watched(namespace: str) -> ListWatch[AgentLease]:
    """The Leases of a namespace. Reading one raises msgspec.DecodeError for what is none."""
    path = paths.in_group("coordination.k8s.io", "v1", "leases", namespace=namespace)
    return ListWatch(path, lambda raw: _lease(bytes(raw)))


def _counted(agents: Collection[AgentName]) -> dict[str, object]:
    first = [f"{vendor} of {node}" for node, vendor in islice(agents, NAMED)]
    return {"count": len(agents), "first": first}


class AgentLeases:
    """A handler of Leases that keeps the ledger's silent agents up to date."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        in_flight: InFlightPods,
        raise_alert: Callable[[Alert], object],
        pod_events: PodEvents,
        gauge: Gauge,
        clock: Clock,
    ) -> None:
        """`gauge` counts the silent agents. That pods may be placed where none could be is
        published as `freed`."""
        self.agents = AgentLiveness()
        self._ledger = ledger
        self._in_flight = in_flight
        self._raise_alert = raise_alert
        self._pod_events = pod_events
        self._gauge = gauge
        self.clock = clock
        self._listing = False
        """A list is being taken: nobody is silent before the last of its renewals."""
        self._due: set[str] = set()
        """Nodes that are silent, or not any more, and that the ledger does not know as such."""

    # -- nodes

    def on_node(self, name: str, heartbeats: Mapping[str, float]) -> None:
        """A node was added or modified."""
        self.agents.expect(name, heartbeats, self.clock.time())

    def on_node_gone(self, name: str) -> None:
        """A node was deleted."""
        self.agents.forget_node(name)

    # -- Leases

    def on_list(self, items: list[AgentLease], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`."""
        self.agents.deliver(now)
        self._listing = True
        try:
            yield from for_each(items, self._renew)
        finally:
            self._listing = False
        yield from self.expire()

    def on_event(self, change: WatchEventType, item: AgentLease, now: float) -> None:
        """See `Handler.on_event`."""
        self.agents.deliver(now)
        if change is WatchEventType.DELETED:
            return
        self._renew(item)
        _, node = agent_of_lease(item.metadata.name) or ("", "")
        if self._ledger.fleet.silent.get(node, frozenset()) - self.agents.silent(node):
            self._bring([node])  # now: its node changes next, and kube-scheduler tries pods once

    def _renew(self, item: AgentLease) -> None:
        agent = agent_of_lease(item.metadata.name)
        if agent is None:
            return
        vendor, node = agent
        stamp = item.spec.renew_time or ""
        self.agents.renew(
            AgentRenewal(
                node=node,
                vendor=vendor,
                stamp=stamp,
                renewed_at=parse_time(stamp),
                starts=item.spec.lease_transitions or 0,
            ),
            self.clock.time(),
        )

    # -- time

    def expire(self) -> Slices[None]:
        """Bring to the ledger who fell silent, and who is back; a slice is some nodes. What is left
        where it is abandoned, the next one brings."""
        if self._listing:
            return
        self._due |= self.agents.expire()
        if not self._due:
            return
        self._gauge.set(self.agents.count())
        silent: dict[AgentName, str] = {}
        back: list[AgentName] = []
        nodes = sorted(self._due)
        for at in range(0, len(nodes), ITEMS):
            yield
            fallen, returned = self._bring(nodes[at : at + ITEMS])
            silent |= fallen
            back += returned
        if silent:
            _log.warning("agents silent", **_counted(silent), why=next(iter(silent.values())))
        if back:
            _log.info("agents back", **_counted(back))

    def _bring(self, nodes: Sequence[str]) -> tuple[dict[AgentName, str], list[AgentName]]:
        """Bring these nodes to the ledger as they are now; who fell silent, with a sentence that
        says so, and who is back."""
        before = {node: self._ledger.fleet.silent.get(node, frozenset()) for node in nodes}
        after = {node: self.agents.silent(node) for node in nodes}
        self._ledger.set_silent(after)
        self._due.difference_update(nodes)
        silent = {
            (node, vendor): self.agents.describe(node, vendor)
            for node in nodes
            for vendor in sorted(after[node] - before[node])
        }
        if silent:
            self._alert(silent)
        back = [(node, vendor) for node in nodes for vendor in sorted(before[node] - after[node])]
        if back:
            self._pod_events.freed.publish()
        return silent, back

    def _alert(self, silent: Mapping[AgentName, str]) -> None:
        """Raise an alert for each pod that is bound to the nodes and has not started."""
        sentences: dict[str, list[str]] = {}
        for (node, _), sentence in silent.items():
            sentences.setdefault(node, []).append(sentence)
        for pod in self._in_flight.on(sentences):
            namespace, _, name = pod.pod.partition("/")
            for sentence in sentences[pod.node]:
                self._raise_alert(
                    Alert(
                        wrong=AlertReason.AGENT_SILENT,
                        namespace=namespace,
                        name=name,
                        uid=pod.uid,
                        node=pod.node,
                        text=f"has not started, and {sentence}",
                    )
                )


class AgentLeaseWatch:
    """Watches the Leases of agents, and renews the leader's own next to them.

    The scheduler does not wait for it: without it, as where its role does not allow it, no agent is
    silent.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        calls: KubeSettings,
        settings: AgentLeaseSettings,
        handler: AgentLeases,
        leadership: Leadership,
        identity: str,
        random: Random,
    ) -> None:
        """`calls` says how lists and watches are made; `identity` is for people."""
        self._leadership = leadership
        self._reflector = Reflector(
            kube, watched(settings.namespace), handler, settings=calls, random=random
        )
        self._pulse = Heartbeat(
            kube,
            HeartbeatSettings(namespace=settings.namespace, renew_s=settings.pulse_s),
            lease=PULSE,
            identity=identity,
            clock=handler.clock,
            owner=lambda: None,
            random=random,
        )

    async def run(self) -> NoReturn:
        """Watch and renew, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.run(lambda: self._leadership.holds), name="pulse")
            await self._reflector.run()
        raise AssertionError("reflectors never end")
