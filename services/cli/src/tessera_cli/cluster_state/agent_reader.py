"""Reads what pods use from the agents themselves, where the bus cannot be reached: through the API
server, which passes the request on (`pods/proxy`).

Agents answer other machines only where the component `prometheus` has them do so.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_cli.cluster_state.agent_metrics import usage_in
from tessera_runtime.errors import ApiForbidden, TesseraError
from tessera_runtime.informers.cluster_feed import ClusterFeed
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lists import pages
from tessera_runtime.kube.settings import LeaseSettings
from tessera_schema.json_codec import decoder

SELECTOR: Final = "app.kubernetes.io/name=tessera-agent"
_PODS: Final = paths.in_core(LeaseSettings().namespace, "pods")
_VENDOR: Final = "app.kubernetes.io/component"
_PORT: Final = "metrics"
_AT_ONCE: Final = 16
_PAGE: Final = 500
_AGAIN_S: Final = 5.0
_FIRST_S: Final = 0.1


class AgentEndpoint(Struct, frozen=True):
    """Where an agent's metrics are."""

    node: str
    vendor: str
    path: str


class _Port(Struct, frozen=True, rename="camel"):
    name: str = ""
    container_port: int = 0


class _Container(Struct, frozen=True):
    ports: tuple[_Port, ...] = ()


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class _AgentPod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_read: Final = decoder(_AgentPod)
Agents = Mapping[str, Sequence[AgentEndpoint]]
"""Node -> its agents."""


async def find_agents(kube: Kube) -> Agents:
    """The agents' pods: those of Tessera's own namespace, for anybody may label a pod. Raises as
    `Kube.call` does."""
    found: dict[str, list[AgentEndpoint]] = defaultdict(list)
    async for page in pages(kube, _PODS, limit=_PAGE, query={"labelSelector": SELECTOR}):
        for raw in page.items or ():
            one = _read(bytes(raw))
            meta, spec = one.metadata, one.spec
            ports = (port for container in spec.containers for port in container.ports)
            port = next((each.container_port for each in ports if each.name == _PORT), 0)
            if spec.node_name and port:
                path = f"{paths.pod(meta.namespace, meta.name)}:{port}/proxy/metrics"
                endpoint = AgentEndpoint(spec.node_name, meta.labels.get(_VENDOR, ""), path)
                found[spec.node_name].append(endpoint)
    return found


async def scrape(kube: Kube, feed: ClusterFeed, agents: Agents, nodes: Iterable[str]) -> str:
    """Read the agents of these nodes once. What is wrong with some of them, in a sentence; empty =
    nothing."""
    wanted = [agent for node in nodes for agent in agents.get(node, ())]
    turns, problems = asyncio.Semaphore(_AT_ONCE), []

    async def one(agent: AgentEndpoint) -> None:
        async with turns:
            problem = await _scrape(kube, feed, agent)
        if problem:
            problems.append(problem)

    async with asyncio.TaskGroup() as group:
        for agent in wanted:
            group.create_task(one(agent), name=agent.path)
    if not wanted:
        return "use is not known: no agent has a port for metrics there"
    return f"{len(problems)} of {len(wanted)} agents: {problems[0]}" if problems else ""


async def scrape_on(kube: Kube, feed: ClusterFeed, nodes: Callable[[], Iterable[str]]) -> NoReturn:
    """Read the agents of the nodes that are drawn, every few seconds, for ever."""
    agents = await find_agents(kube)
    while True:
        drawn = list(nodes())
        if drawn:
            feed.problem = await scrape(kube, feed, agents, drawn)
        await asyncio.sleep(_AGAIN_S if drawn else _FIRST_S)


async def _scrape(kube: Kube, feed: ClusterFeed, agent: AgentEndpoint) -> str:
    try:
        text = await kube.call(Verb.GET, agent.path)
        uids = feed.occupancy.uids_on(agent.node)
        usage = usage_in(text.decode(errors="replace"), agent.node, agent.vendor, uids)
    except ApiForbidden:
        return "you may not read their metrics: it takes the right to get pods/proxy"
    except TesseraError as e:
        return f"no metrics: {e}: the component prometheus has agents answer other machines"
    except (ValueError, msgspec.ValidationError) as e:
        return f"what it answers are no metrics: {e}"
    feed.take_metrics(usage, asyncio.get_running_loop().time())
    return ""
