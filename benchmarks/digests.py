"""What a digest and a pod cost the rebalancer and the quota monitor by themselves: no NATS, no API
server, and nobody else's time.

The lists of a large cluster (`scale_cluster`) and the signed digests of its agents (`scale_agents`)
are handed to what the services' watches and subscriptions hand them to. Each node sends a digest
every ten seconds, by a clock of the benchmark. Memory is what Python has allocated and not freed;
times are of another pass, in which nothing counts allocations.

    .venv/bin/python benchmarks/digests.py --nodes 2000 --rounds 12

For each service, bytes for each pod and microseconds of processor time for each digest; of the
rebalancer also a round of plans and a scrape, with the longest part that nothing else interrupts,
and what the process grew by until then.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale_agents import INTERVAL_S, Agents
from benchmarks.scale_cluster import (
    A_NAMESPACE,
    CLUSTER,
    SIGNER,
    SPEAKER,
    LargeCluster,
    PlacedPod,
    signed_grant,
)
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance import proposals
from tessera_core.registry.registry import load
from tessera_core.reports.agents import AgentReports
from tessera_core.slices import Slices, at_once
from tessera_core.trust.grants import published_key
from tessera_core.trust.messages import sender_problem
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.smoother import Smoother
from tessera_quota.pods import QuotaPods, summary
from tessera_quota.settings import QuotaSettings
from tessera_quota.usage import UsageListener
from tessera_rebalancer.hint_publisher import HintPublisher
from tessera_rebalancer.metrics import RebalancerMetrics
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.cluster_watch import ClusterWatch
from tessera_rebalancer.settings import RebalancerSettings
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.outbox import Outbox, OutboxSettings
from tessera_runtime.clock import SystemClock
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.nodes import LedgerNodes
from tessera_runtime.informers.pods import PodSummaryReader
from tessera_runtime.kube import paths
from tessera_runtime.metrics import CONTENT_TYPE, MetricsRegistry
from tessera_runtime.service import ServiceEnvironment
from tessera_schema import subjects
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.messages.device_reports import encode
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tessera_testing.bus import FakeBus
from tessera_testing.kube import FakeKube, a_store

REGISTRY: Final = load()
KEYS: Final = dict([published_key(SIGNER.public)])
T = TypeVar("T")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
ORIGINALS: Final = 100
"""Nodes that are made in an API server."""
ROUNDS_HELD: Final = 3
"""Digests of each node after which memory is counted."""


class _Items(Struct, frozen=True):
    items: tuple[msgspec.Raw, ...]


_items: Final = msgspec.json.Decoder(_Items).decode


class Listed(Struct, frozen=True):
    """What an API server lists of a cluster."""

    nodes: Collection[bytes]
    pods: Collection[bytes]


class Lists(Listed, frozen=True):
    """The same with the cluster's agents."""

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

    def lists(self, lists: Listed) -> Iterator[str]:
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
        self._environment = environment = ServiceEnvironment(
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

    def lists(self, lists: Listed) -> Iterator[str]:
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

    def whole(self) -> Iterator[tuple[str, float, float]]:
        """What takes all of the cluster at once: its name, seconds of processor time, and the
        longest part of them."""
        rules, metrics = self._environment.settings.plans.rules, MetricsRegistry("rebalancer")
        RebalancerMetrics(metrics, self._publisher, self._usage)
        watch = ClusterWatch(self._environment, self._objects)
        hints, measured = self._publisher.published, self._usage.containers
        view, *took = _timed(watch.cluster_view(rules, [], hints, measured))
        yield "the cluster as plans see it", took[0], took[1]
        _, *took = _timed(proposals.proposing(view, rules, frozenset(), frozenset()))
        yield "plans sought", took[0], took[1]
        _, *took = _timed(None for _ in metrics.parts(CONTENT_TYPE))
        yield "a scrape", took[0], took[1]


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

    def lists(self, lists: Listed) -> Iterator[str]:
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
    """The lists of a cluster of this size, with so many pods on each node. The first nodes are made
    in an API server, the others are like them."""
    store = a_store(SystemClock())
    cluster = LargeCluster(store, min(nodes, ORIGINALS), min(nodes, ORIGINALS) * pods)
    await cluster.fill()
    nodes_, pods_ = (
        [bytes(raw) for raw in _items(store.handle("GET", path, {}, b"", "").body).items]
        for path in (paths.NODES, paths.PODS)
    )
    layout, originals = cluster.layout.nodes, list(cluster.layout.nodes)
    by_uid = {pod["metadata"]["uid"]: pod for pod in map(msgspec.json.decode, pods_)}
    for number in range(len(originals), nodes):
        first, node = originals[number % len(originals)], f"node-{number:05}"
        nodes_.append(nodes_[number % len(originals)].replace(first.encode(), node.encode()))
        layout[node] = [_like(pod, number) for pod in layout[first]]
        pods_ += [
            _listed(by_uid[old.uid], new, node)
            for old, new in zip(layout[first], layout[node], strict=True)
        ]
    return Lists(tuple(nodes_), tuple(pods_), tuple(layout), Agents(cluster.layout))


def _like(pod: PlacedPod, number: int) -> PlacedPod:
    """The same pod on the node of this number."""
    return PlacedPod(
        f"team-{number // A_NAMESPACE}", f"{pod.name}-{number}", f"{number:08x}{pod.uid[8:]}",
        pod.card,
    )  # fmt: skip


def _listed(original: dict[str, Any], pod: PlacedPod, node: str) -> bytes:
    """The pod as an API server lists it."""
    meta = original["metadata"]
    (owner,) = meta["ownerReferences"]
    own = {
        "name": pod.name, "namespace": pod.namespace, "uid": pod.uid,
        "ownerReferences": [{**owner, "uid": f"rs-{pod.namespace}"}],
        "annotations": {**meta["annotations"], GRANT_KEY: signed_grant(pod, node)},
    }  # fmt: skip
    spec = {**original["spec"], "nodeName": node}
    return msgspec.json.encode({**original, "metadata": {**meta, **own}, "spec": spec})


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


def rss_mb() -> float:
    """What of the process is resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 1e6


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


def _timed(work: Slices[T]) -> tuple[T, float, float]:
    """What the work comes to, its processor time in seconds, and that of its longest slice."""
    longest, began = 0.0, time.process_time()
    last = began
    while True:
        try:
            next(work)
        except StopIteration as e:
            now = time.process_time()
            return e.value, now - began, max(longest, now - last)
        now = time.process_time()
        longest, last = max(longest, now - last), now


async def _took(work: Callable[[], Awaitable[None] | None]) -> float:
    began = time.process_time()
    waits = work()
    if waits is not None:
        await waits
    return time.process_time() - began


async def run(nodes: int, pods: int, rounds: int, *, memory: bool) -> None:
    """Print the tables."""
    lists = await made(nodes, pods)
    print(f"{len(lists.names)} nodes, {len(lists.pods)} pods")
    before = rss_mb()
    for made_of in (OfRebalancer, OfQuotaMonitor):
        found = await bytes_a_pod(made_of(), lists) if memory else {}
        print(f"\n{made_of.__name__}, bytes a pod")
        for part, each in found.items():
            print(f"| {part} | {each:,.0f} |")
        print(f"\n{made_of.__name__}, us a digest: median, mean, most of a round")
        consumer = made_of()
        for part, took in (await microseconds_a_digest(consumer, lists, rounds)).items():
            mean, median = statistics.mean(took), statistics.median(took)
            print(f"| {part} | {median:.0f} | {mean:.0f} | {max(took):.0f} |", flush=True)
        if isinstance(consumer, OfRebalancer):
            for part, all_s, longest_s in consumer.whole():
                print(f"| {part} | {all_s:.2f} s, in parts of {longest_s * 1e3:.0f} ms at most |")
            print(f"the process grew by {rss_mb() - before:.0f} MB")


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=10, help="on each node")
    parser.add_argument("--rounds", type=int, default=12, help="digests of each node")
    parser.add_argument("--times", action="store_true", help="not memory, which takes longer")
    options = parser.parse_args()
    asyncio.run(run(options.nodes, options.pods, options.rounds, memory=not options.times))


if __name__ == "__main__":
    main()
