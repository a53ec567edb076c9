"""One moment of a cluster's cards, or of a part of them: from the API server, and from the message
bus if it was named."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from tessera_cli.api_objects import ClusterConnection, open_cluster
from tessera_cli.cluster_state import agent_reader, api_reader, bus_reader
from tessera_cli.cluster_state.feed import ClusterFeed
from tessera_cli.kubeconfig import ClusterTarget
from tessera_cli.settings import registry
from tessera_runtime.bus.settings import BusSettings


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
        async with bus_reader.receiving(source.bus, feed):
            await bus_reader.until_reported(feed, source.wait_s)
    return feed
