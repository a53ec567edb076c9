"""A cluster as Tessera records it: a ledger with grants, and usage files as hooks write them, read
by the agent's own code, served as the scheduler and the agent serve them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import ClientSession

from tessera_agent.hami_metrics import route as agent_route
from tessera_agent.metrics import AgentMetrics, MetricsSnapshot
from tessera_core.hook.limits_file import CardLimit, HookLimits
from tessera_core.hook.usage_file import UsageFile, UsageFileBounds, decode_usage
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.node.usage_rates import HoldingContainer, Tolerance, UsageSample, use_between
from tessera_runtime.http.server import HttpSettings, application, serving
from tessera_runtime.metrics import MetricsRegistry
from tessera_scheduler.http.hami_metrics import route as scheduler_route
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import CardLoad, ContainerUse, NodeUsage
from tessera_testing.clock import LoopClock
from tests.agent.usagefile import a_usage, memory

NODE: Final = "worker-1"
SECOND: Final = 1_000_000_000
START_NS: Final = 1_795_000_000 * SECOND
LAST_LAUNCH_NS: Final = START_NS + SECOND
CARDS: Final = tuple(
    Card(
        id=f"GPU-0{i}", index=i, vendor="nvidia", model="NVIDIA-A10", memory_bytes=16_000 * MIB,
        slots=10,
    )
    for i in range(2)
)  # fmt: skip


def a_share(position: int, card: int, mib: int, cores: float) -> Share:
    return Share(
        container="main", position=position, vendor="nvidia", dialect="hami", card=CARDS[card].id,
        index=card, memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip


GRANTS: Final = (
    Grant(uid="u-train", namespace="team", name="train", node=NODE,
          shares=(a_share(0, 0, 8_000, 40), a_share(0, 1, 8_000, 40))),
    Grant(uid="u-serve", namespace="shop", name="serve", node=NODE,
          shares=(a_share(0, 1, 2_000, 25),)),
)  # fmt: skip
CHARGED_MIB: Final = {"u-train": 3_000, "u-serve": 500}
OVERHEAD_MIB: Final = 300
BUSY_NS: Final = {"u-train": SECOND // 5, "u-serve": SECOND // 10}
"""GPU time of each container on each of its cards within the measured second."""


def ledger() -> Ledger:
    """With both pods bound."""
    made = Ledger()
    made.put_node(NODE, CARDS)
    for grant in GRANTS:
        made.observe(ObservedPod(uid=grant.uid, grant=grant), 0)
    return made


def _file(grant: Grant, gpu_ns: int) -> UsageFile:
    records = [
        {"uuid": s.card.encode(), "gpu_ns": gpu_ns, "last_launch_ns": LAST_LAUNCH_NS}
        for s in grant.shares
    ]
    slots = tuple(
        {"card": i, "pid": 7, "bytes": memory(device=CHARGED_MIB[grant.uid] * MIB),
         "overhead_bytes": OVERHEAD_MIB * MIB}
        for i in range(len(records))
    )  # fmt: skip
    bounds = UsageFileBounds(
        memory_bytes={card.id.lower().removeprefix("gpu-"): card.memory_bytes for card in CARDS},
        now_ns=START_NS + 10 * SECOND,
    )
    read = decode_usage(bytes(a_usage(*records, slots=slots)), bounds)
    assert isinstance(read, UsageFile)
    return read


def _use(grant: Grant) -> ContainerUse:
    """What two reads of its usage file, a second apart, say."""
    limits = HookLimits(
        container=f"{grant.namespace}/{grant.name}/main",
        cards=tuple(
            CardLimit(uuid=s.card, index=s.index, memory_bytes=s.memory_bytes,
                      cores_permille=int(s.cores_percent * 10))
            for s in grant.shares
        ),
    )  # fmt: skip
    held = HoldingContainer(
        namespace=grant.namespace, pod=grant.name, uid=grant.uid, container="main", limits=limits
    )
    before, after = (
        UsageSample(
            at_s=second, wall_ns=START_NS + second * SECOND,
            usage=_file(grant, second * BUSY_NS[grant.uid]),
        )
        for second in (0, 1)
    )  # fmt: skip
    return use_between(held, before, after, Tolerance(memory_bytes=0, overhead_bytes=0))[0]


def usage() -> NodeUsage:
    """The node's measurement, with what its driver said of the cards."""
    return NodeUsage(
        node=NODE, vendor="nvidia", at=START_NS / SECOND + 1, interval_s=1,
        containers=tuple(map(_use, GRANTS)),
        cards=tuple(
            CardLoad(card=card.id, memory_used_bytes=(4_000 + card.index) * MIB,
                     cores_percent=20 + card.index, memory_busy_percent=5 + card.index)
            for card in CARDS
        ),
    )  # fmt: skip


def snapshot() -> AgentMetrics:
    """The agent's figures after that measurement."""
    metrics = AgentMetrics(MetricsRegistry("agent"), NODE)
    metrics.take_snapshot = lambda: MetricsSnapshot(node=NODE, cards=CARDS, usage=usage())
    return metrics


@asynccontextmanager
async def serving_metrics() -> AsyncGenerator[tuple[str, str]]:
    """The scheduler's and the agent's base URL."""
    settings = HttpSettings(host="127.0.0.1", port=0)
    of_scheduler, of_agent = application(settings), application(settings)
    of_scheduler.add_routes([scheduler_route(ledger(), lambda: True, "abc")])
    clock = LoopClock(start=START_NS / SECOND + 3)
    of_agent.add_routes([agent_route(snapshot(), clock, "abc")])
    async with (
        serving(of_scheduler, settings) as scheduler,
        serving(of_agent, settings, name="agent") as agent,
    ):
        yield scheduler.url, agent.url


async def scraped(query: str = "") -> str:
    """What both print, one after the other."""
    async with serving_metrics() as urls, ClientSession() as session:
        bodies = []
        for url in urls:
            async with session.get(f"{url}/hami/metrics{query}") as answer:
                bodies.append(await answer.text())
        return "".join(bodies)
