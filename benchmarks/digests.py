"""What a digest and a pod cost the rebalancer and the quota monitor by themselves: no NATS, no API
server, and nobody else's time.

The lists of a large cluster (`scale_cluster`) and the signed digests of its agents (`scale_agents`)
are handed to what the services' watches and subscriptions hand them to. Each node sends a digest
every ten seconds, by a clock of the benchmark. Memory is what Python has allocated and not freed;
times are of another pass, in which nothing counts allocations.

    .venv/bin/python benchmarks/digests.py --nodes 2000 --rounds 12

For each service, bytes for each pod and microseconds of processor time for each digest.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale_agents import INTERVAL_S, Agents
from benchmarks.scale_cluster import CLUSTER, SIGNER, SPEAKER, LargeCluster
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import load
from tessera_core.reports.agents import AgentReports
from tessera_core.slices import at_once
from tessera_core.trust.grants import published_key
from tessera_core.trust.messages import sender_problem
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.smoother import Smoother
from tessera_quota.pods import QuotaPods, summary
from tessera_quota.settings import QuotaSettings
from tessera_quota.usage import UsageListener
from tessera_rebalancer.hint_publisher import HintPublisher
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.settings import RebalancerSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.outbox import Outbox, OutboxSettings
from tessera_runtime.clock import SystemClock
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.nodes import LedgerNodes
from tessera_runtime.informers.pods import PodSummaryReader
from tessera_runtime.kube import paths
from tessera_runtime.service import ServiceEnvironment
from tessera_schema import subjects
from tessera_schema.grants import Grant
from tessera_schema.messages.device_reports import encode
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tessera_testing.bus import FakeBus
from tessera_testing.kube import FakeKube, a_store

REGISTRY: Final = load()
KEYS: Final = dict([published_key(SIGNER.public)])
ROUNDS_HELD: Final = 3
"""Digests of each node after which memory is counted."""


class _Items(Struct, frozen=True):
    items: tuple[msgspec.Raw, ...]


_items: Final = msgspec.json.Decoder(_Items).decode


class Lists(Struct, frozen=True):
    """What an API server lists of a cluster, and the cluster's agents."""

    nodes: tuple[bytes, ...]
    pods: tuple[bytes, ...]
    names: tuple[str, ...]
    agents: Agents

    def digests(self, at: float) -> Iterator[Message]:
        """One of each node, measured until this Unix time."""
        for number, node in enumerate(self.names):
            data = encode(self.agents.usage(node, number, at))
            envelope = self.agents.envelope(node, USAGE_MEASURED, data)
            yield Message(subject=subjects.usage(CLUSTER, node), envelope=envelope, data=data)


class Consumer(Protocol):
    """The part of a service that digests are for."""

    now: float
    """Its loop's time."""

    def lists(self, lists: Lists) -> Iterator[str]:
        """Take the lists; the name of each part once it is taken."""
        ...

    def receive(self, message: Message) -> None:
        """Take one digest."""
        ...

    async def publish(self) -> None:
        """What follows from the digests."""
        ...


class OfRebalancer:
    """Hints, and the lists that they and plans are made from."""

    def __init__(self) -> None:
        settings, self.now = RebalancerSettings(), 0.0
        clock = SystemClock()
        environment = ServiceEnvironment(
            kube=FakeKube(a_store(clock)), bus=FakeBus(), settings=settings, clock=clock,
            registry=REGISTRY,
        )  # fmt: skip
        reports = _reports()
        self._objects = ClusterObjects(environment, reports)
        self._objects.keys.put(KEYS)
        granted = self._objects.granted
        self._usage = UsageConsumer(Smoother(), reports, granted.grant_of, lambda: self.now)
        outbox = Outbox(clock, "rebalancer", "r", OutboxSettings(), lambda *_: None)
        self._publisher = HintPublisher(
            usage=self._usage, builder=HintBuilder(), pods=granted, outbox=outbox,
            settings=settings.hints, steps=settings.steps, now=lambda: self.now,
        )  # fmt: skip

    def lists(self, lists: Lists) -> Iterator[str]:
        """See `Consumer`."""
        objects = self._objects
        objects.nodes.on_list([objects.nodes.read(raw) for raw in lists.nodes], 0, 0)
        yield "nodes"
        at_once(objects.on_list([objects.reader.read(raw) for raw in lists.pods], 0, 0))
        yield "pods"

    def receive(self, message: Message) -> None:
        """See `Consumer`."""
        self._usage.receive(message)

    async def publish(self) -> None:
        """See `Consumer`."""
        await self._publisher.publish_due()


class OfQuotaMonitor:
    """Use of namespaces, and who holds what."""

    def __init__(self) -> None:
        self.now, reports, self._ledger = 0.0, _reports(), Ledger()
        self._pods = QuotaPods(self._ledger)
        self._nodes = LedgerNodes(REGISTRY, self._ledger, reports)
        stale_s = QuotaSettings().count.stale_s
        self._usage = UsageListener(reports, self._grant_of, lambda: self.now, stale_s)

    def _grant_of(self, uid: str) -> Grant | None:
        entry = self._ledger.entry(uid)
        return None if entry is None else entry.grant

    def lists(self, lists: Lists) -> Iterator[str]:
        """See `Consumer`."""
        self._nodes.on_list([self._nodes.read(raw) for raw in lists.nodes], 0, 0)
        yield "nodes"
        keys = GrantKeys()
        keys.put(KEYS)
        reader = PodSummaryReader(REGISTRY, self._ledger.fleet, keys, summary, migration=False)
        at_once(self._pods.on_list([reader.read(raw) for raw in lists.pods], 0, 0))
        yield "pods"

    def receive(self, message: Message) -> None:
        """See `Consumer`."""
        self._usage.receive(message)

    async def publish(self) -> None:
        """Nothing: quotas are evaluated every few seconds, whatever came."""


def _reports() -> AgentReports:
    return AgentReports(CLUSTER, REGISTRY.vendors, lambda *doubt: print("doubted:", *doubt))


async def made(nodes: int, pods: int) -> Lists:
    """The lists of a cluster of this size, with so many pods on each node."""
    store = a_store(SystemClock())
    cluster = LargeCluster(store, nodes, nodes * pods)
    await cluster.fill()
    nodes_, pods_ = (
        tuple(bytes(raw) for raw in _items(store.handle("GET", path, {}, b"", "").body).items)
        for path in (paths.NODES, paths.PODS)
    )
    return Lists(nodes_, pods_, tuple(cluster.layout.nodes), Agents(cluster.layout))


async def bytes_a_pod(consumer: Consumer, lists: Lists) -> Mapping[str, float]:
    """Part -> bytes that Python has allocated for each pod."""
    found: dict[str, float] = {}
    tracemalloc.start()
    before = _allocated()

    def took(part: str) -> None:
        nonlocal before
        now = _allocated()
        found[part], before = (now - before) / len(lists.pods), now

    for part in consumer.lists(lists):
        took(part)
    for number in range(ROUNDS_HELD):
        consumer.now += INTERVAL_S
        for message in lists.digests(time.time() + number * INTERVAL_S):
            consumer.receive(message)
    took("use")
    await consumer.publish()
    took("what is published")
    tracemalloc.stop()
    return {**found, "together": sum(found.values())}


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def microseconds_a_digest(
    consumer: Consumer, lists: Lists, rounds: int
) -> Mapping[str, list[float]]:
    """Part -> processor time for each digest, round by round."""
    for _ in consumer.lists(lists):
        pass
    gc.collect()
    gc.freeze()
    found: dict[str, list[float]] = {"signature": [], "taken, with its signature": [], "hints": []}
    for number in range(rounds):
        consumer.now += INTERVAL_S
        messages = list(lists.digests(time.time() + number * INTERVAL_S))

        def verify(messages: list[Message] = messages) -> None:
            for each in messages:
                order = each.envelope.order
                sender_problem(SPEAKER.public, each.envelope.signature, order, each.data)

        def take(messages: list[Message] = messages) -> None:
            for each in messages:
                consumer.receive(each)

        for part, took in zip(
            found, (await _took(verify), await _took(take), await _took(consumer.publish)),
            strict=True,
        ):  # fmt: skip
            found[part].append(took / len(messages) * 1e6)
    return found


async def _took(work: Callable[[], Awaitable[None] | None]) -> float:
    began = time.process_time()
    waits = work()
    if waits is not None:
        await waits
    return time.process_time() - began


async def run(nodes: int, pods: int, rounds: int) -> None:
    """Print the tables."""
    lists = await made(nodes, pods)
    print(f"{len(lists.names)} nodes, {len(lists.pods)} pods")
    for consumer in (OfRebalancer, OfQuotaMonitor):
        print(f"\n{consumer.__name__}, bytes a pod")
        for part, each in (await bytes_a_pod(consumer(), lists)).items():
            print(f"| {part} | {each:,.0f} |")
        print(f"\n{consumer.__name__}, us a digest: median, mean, most of a round")
        for part, took in (await microseconds_a_digest(consumer(), lists, rounds)).items():
            mean, median = statistics.mean(took), statistics.median(took)
            print(f"| {part} | {median:.0f} | {mean:.0f} | {max(took):.0f} |", flush=True)


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=10, help="on each node")
    parser.add_argument("--rounds", type=int, default=12, help="digests of each node")
    options = parser.parse_args()
    asyncio.run(run(options.nodes, options.pods, options.rounds))


if __name__ == "__main__":
    main()
