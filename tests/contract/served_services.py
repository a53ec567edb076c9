"""The metrics of all services, after a pod has gone its way: admitted, filtered, bound, given its
card and measured, in a trace that is recorded. Another one breaks its usage file, two wait in a
queue and one for room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import ClientSession

from tessera_core.hook.records import padded
from tessera_core.hook.usage_file import KERNEL_TIMES_AT, TIMES
from tessera_core.quota.allowance import NO_LIMITS
from tessera_runtime.http.server import HttpSettings, application, serving, status_routes
from tessera_runtime.metrics import MetricsRegistry
from tessera_scheduler.extender.handlers import answers
from tessera_scheduler.gangs.settings import GangWrite
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.webhook import open_webhook
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse
from tests.agent.nri.runtime_node import TRACE, a_node, a_share, granted, looks
from tests.agent.nri.test_what_is_published import overwrite, usage_file
from tests.agent.usagefile import a_usage
from tests.quota import cluster as quotas
from tests.rebalancer import cluster as rebalancing
from tests.scheduler.fake_cluster import HOME, leading, until
from tests.scheduler.gangs.gang_cluster import whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster
from tests.webhook.setting import REGISTRY, a_manifest, a_review
from tests.webhook.test_answers_over_https import SETTINGS

TRACE_ID: Final = TRACE.split("-")[1]
NODE: Final = "worker-1"
VENDOR: Final = "nvidia"


@asynccontextmanager
async def served_services(folder: Path) -> AsyncGenerator[Mapping[str, str]]:
    """The base URL of each service's metrics, by its name."""
    async with AsyncExitStack() as stack:
        registries = {
            "scheduler": await stack.enter_async_context(_scheduler()),
            "agent": await stack.enter_async_context(_agent(folder)),
            "quota": await stack.enter_async_context(_quota()),
            "rebalancer": await stack.enter_async_context(_rebalancer()),
        }
        urls = {}
        for name, registry in registries.items():
            settings = HttpSettings()
            app = application(settings)
            app.add_routes(status_routes(ready=str, metrics=registry))
            served = await stack.enter_async_context(serving(app, settings, name=name))
            urls[name] = served.url
        yield urls


@asynccontextmanager
async def _scheduler() -> AsyncGenerator[MetricsRegistry]:
    cluster = QueueCluster(cards=2)
    cluster.queue("q", "1")
    cluster.pod_group("g", 2, queue="q")
    config = whole(write=(GangWrite.NONE,))
    async with leading(cluster, config=config) as scheduler:
        cluster.pod("p", annotations={TRACE_KEY: TRACE})
        cluster.pod("large", 1_000_000)
        cluster.members("g", 1, 2)
        await _admit(cluster, scheduler)
        calls = answers(scheduler.extender, scheduler.metrics)
        for name in ("large", "g1", "p"):
            calls["/filter"](cluster.filter_body(name))
        uid = cluster.read("p").metadata.uid
        body = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n0"}
        bound = calls["/bind"](msgspec.json.encode(body))
        assert not isinstance(bound, tuple)
        assert b'"Error":""' in (await bound).body  # type: ignore[misc]
        await until(lambda: b'queue="q"' in scheduler.metrics.registry.text(), 30)
        yield scheduler.metrics.registry


async def _admit(cluster: QueueCluster, scheduler: Scheduler) -> None:
    webhook = open_webhook(
        SETTINGS, kube=cluster.kube, namespace=HOME, registry=REGISTRY, clock=cluster.clock,
        allowance=lambda _: NO_LIMITS, metrics=scheduler.metrics.registry,
    )  # fmt: skip
    body = msgspec.json.encode(a_review(a_manifest(notes={TRACE_KEY: TRACE})))
    async with (
        webhook as served,
        ClientSession(served.url) as session,
        session.post("/mutate", data=body, ssl=False) as answer,
    ):
        assert answer.status == 200, await answer.text()


@asynccontextmanager
async def _agent(folder: Path) -> AsyncGenerator[MetricsRegistry]:
    async with a_node(folder) as node, node.agent() as agent:
        given = await node.run(granted("job", a_share(mib=4096)))
        card = {
            "uuid": padded("GPU-0", 64), "charged_bytes": 100 * MIB, "last_launch_ns": 1_000_000_000
        }  # fmt: skip
        overwrite(usage_file(given), bytes(a_usage(card)))
        spoilt = await node.run(granted("spoilt", a_share(card=1, mib=1024)))
        usage_file(spoilt).write_bytes(b"what the tenant thinks")
        async with _launching(usage_file(given)):
            await looks(agent, 4)
            yield agent.metrics


@asynccontextmanager
async def _launching(path: Path) -> AsyncGenerator[None]:
    """Kernels of all lengths are counted all the time."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_launch(path), name="launches")
        try:
            yield
        finally:
            task.cancel()


async def _launch(path: Path) -> None:
    with path.open("r+b") as file:
        for count in range(1, 1 << 31):
            file.seek(KERNEL_TIMES_AT)
            file.write(count.to_bytes(4, "little") * TIMES)
            file.flush()
            await asyncio.sleep(0.005)


@asynccontextmanager
async def _quota() -> AsyncGenerator[MetricsRegistry]:
    cluster = quotas.Cluster()
    cluster.quota({"hard": {"memory": "100Gi"}})
    uid = cluster.bound("job")
    cluster.waiting("large", 1_000_000)
    async with quotas.monitoring(cluster) as quota:
        await quotas.until(lambda: quota.problem() == "", 30)
        use = CardUse(card="GPU-0", memory_bytes=100 * MIB, cores_percent=20)
        await cluster.use(("default", uid, use))
        await quotas.until(lambda: b"tessera_quota_used_cards{" in quota.metrics.text(), 30)
        yield quota.metrics


@asynccontextmanager
async def _rebalancer() -> AsyncGenerator[MetricsRegistry]:
    cluster = rebalancing.Cluster(NODE)
    uid = cluster.bound("job", node=NODE)
    async with rebalancing.rebalancing(cluster) as rebalancer:
        await rebalancing.until(lambda: rebalancer.objects.pods_read.is_set(), 30)
        while b"tessera_rebalancer_card_busy_percent{" not in rebalancer.metrics.text():
            await cluster.agents.publish((uid, rebalancing.a_use(30, node=NODE)), node=NODE)
            await asyncio.sleep(0.2)
        yield rebalancer.metrics
