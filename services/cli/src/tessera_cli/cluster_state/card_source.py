"""A cluster's cards, or a part of them, read once or followed: from the API server, and from the
message bus if it was named."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from msgspec import Struct

from tessera_cli.api_objects import ClusterConnection, open_cluster
from tessera_cli.cluster_state import agent_reader, api_reader
from tessera_cli.kubeconfig import ClusterTarget
from tessera_cli.settings import registry
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.informers.cluster_feed import ClusterFeed


class CardSource(Struct, frozen=True, kw_only=True):
    """What is read."""

    target: ClusterTarget
    bus: BusSettings | None = None
    agents: bool = False
    """Where no bus is named, use is read from the agents' metrics."""
    wait_s: float = 0
    """Seconds that a single answer waits for usage."""
    nodes: str = ""
    """Label selector of nodes; empty = all."""
    pods: str = ""
    """Label selector of pods."""
    namespaced: bool = False
    """Of one namespace alone, unless the target says all: nodes are read if the caller may."""

    def open(self) -> AbstractAsyncContextManager[ClusterConnection]:
        """The cluster. Raises ClusterUnreadable for whatever it does not do."""
        return open_cluster(self.target, name="tessera-cards", error=api_reader.ClusterUnreadable)


async def read_cards(source: CardSource) -> ClusterFeed:
    """Read it once. Raises ClusterUnreadable, and what the bus is refused for."""
    feed = ClusterFeed(registry(None))
    one = source.namespaced and not source.target.everywhere
    async with source.open() as cluster:
        namespace = cluster.namespace if one else ""
        try:
            await api_reader.read_nodes(cluster, feed, source.nodes)
        except api_reader.ClusterUnreadable:
            if not source.namespaced:
                raise
        await api_reader.read_pods(cluster, feed, namespace, source.pods)
        if feed.occupancy.waiting():
            await api_reader.read_answers(cluster.kube, feed, namespace)
        if source.agents and source.bus is None:
            agents = await agent_reader.find_agents(cluster.kube)
            nodes = [row.name for row in feed.occupancy.rows()]
            feed.problem = await agent_reader.scrape(cluster.kube, feed, agents, nodes)
    if source.bus is not None:
        from tessera_cli.cluster_state import bus_reader

        async with bus_reader.receiving(source.bus, feed):
            await bus_reader.until_reported(feed, source.wait_s)
    return feed


@asynccontextmanager
async def following(
    source: CardSource, feed: ClusterFeed, first: Callable[[], Iterable[str]]
) -> AsyncGenerator[None]:
    """Keep the feed up to date while the body runs. What is measured on the nodes that `first` says
    is taken in before that of others; without a bus, only the agents there are read.

    Raises as `read_cards` does.
    """
    async with AsyncExitStack() as running:
        cluster = await running.enter_async_context(source.open())
        one = source.namespaced and not source.target.everywhere
        part = api_reader.ClusterPart(
            namespace=cluster.namespace if one else "", nodes=source.nodes, pods=source.pods
        )
        await running.enter_async_context(api_reader.watching(cluster, feed, part))
        if source.bus is not None:
            from tessera_cli.cluster_state import bus_reader

            await running.enter_async_context(bus_reader.receiving(source.bus, feed))
            settling = bus_reader.settle_on(feed, first)
            await running.enter_async_context(running_in_background(settling, "settling"))
        elif source.agents:
            reading = agent_reader.scrape_on(cluster.kube, feed, first)
            await running.enter_async_context(running_in_background(reading, "agents"))
        yield
