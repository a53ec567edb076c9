"""A real Prometheus reads what an agent exports, and `tessera report` reads Prometheus."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession, web

from tessera_agent.metrics import AgentMetrics, GrantedAmounts, MetricsSnapshot
from tessera_cli.report.prometheus import PrometheusApi, digests_of, read_days, read_owners
from tessera_core.utilization.history import UseHistory
from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tessera_runtime.metrics import CONTENT_TYPE, MetricsRegistry
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage
from tests.contract.kubebin import kube_bin
from tests.contract.session_fixtures import or_skip

CARD = Card(id="GPU-1", index=0, vendor="acme", model="Acme A100", memory_bytes=1000 * MIB)
OWNER = (
    'kube_pod_owner{namespace="team",pod="serve-1",owner_kind="ReplicaSet",owner_name="serve-5d",'
    'owner_is_controller="true"} 1\n'
    'kube_replicaset_owner{namespace="team",replicaset="serve-5d",owner_kind="Deployment",'
    'owner_name="serve",owner_is_controller="true"} 1\n'
)
"""As kube-state-metrics exports it."""


def a_snapshot(memory_mib: int) -> MetricsSnapshot:
    use = CardUse(
        card=CARD.id, memory_bytes=memory_mib * MIB, cores_percent=30, throttled_percent=20
    )
    container = ContainerUse(
        namespace="team", pod="serve-1", uid="u", container="c", cards=(use,), gaps=("no-hook",)
    )
    granted = [
        GrantedAmounts(namespace="team", pod=pod, container="c", cards=0.25, memory_bytes=500 * MIB)
        for pod in ("serve-1", "silent")
    ]
    usage = NodeUsage(node="n", vendor="acme", at=1, interval_s=2, containers=(container,))
    return MetricsSnapshot(node="n", cards=(CARD,), usage=usage, requested=granted)


@asynccontextmanager
async def agent() -> AsyncGenerator[str]:
    """An agent's metrics, whose container takes more memory once, and an owner's."""
    registry = MetricsRegistry("agent")
    metrics = AgentMetrics(registry, "n")
    scrapes = 0

    async def text(_request: web.Request) -> web.Response:
        nonlocal scrapes
        scrapes += 1
        metrics.take_snapshot = partial(a_snapshot, 300 if scrapes == 2 else 100)
        return web.Response(body=registry.text() + OWNER.encode(), headers={
            "Content-Type": CONTENT_TYPE
        })  # fmt: skip

    app = web.Application()
    app.add_routes([web.get("/metrics", text)])
    runner = web.AppRunner(app)
    await runner.setup()
    with reserved_ports(1) as (port,):
        pass
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncGenerator[str]:
    with or_skip():
        program = await asyncio.to_thread(kube_bin, "prometheus")
    with reserved_ports(1) as (port,):
        pass
    scrape: dict[str, Any] = {
        "job_name": "agents", "scrape_interval": "1s", "honor_labels": True,
        "static_configs": [{"targets": [target], "labels": {"namespace": "tessera-system"}}],
    }  # fmt: skip
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
    process = await asyncio.create_subprocess_exec(
        program / "prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
        preexec_fn=ends_with_parent(),
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def history_of(url: str) -> UseHistory:
    """After five scrapes: subqueries count whole minutes of the clock, so until one is over."""
    async with ClientSession() as session, asyncio.timeout(200):
        while True:
            try:
                async with session.get(f"{url}/api/v1/query", params={
                    "query": "count_over_time(tessera_agent_container_cores_percent[5m]) >= 5 and "
                    "count_over_time(tessera_agent_container_cores_percent[5m:1m]) >= 1"
                }) as answer:  # fmt: skip
                    if json.loads(await answer.text())["data"]["result"]:
                        break
            except (OSError, ValueError, KeyError):
                pass  # it does not listen yet
            await asyncio.sleep(0.5)
        history, api = UseHistory(), PrometheusApi(session, url)
        for day in await read_days(api, time.time(), 300 / 86_400):
            history.add_all(digests_of(day))
        history.add_all(await read_owners(api, time.time(), 300 / 86_400))
        return history


@pytest.mark.timeout(600)
async def test_a_history_is_read(tmp_path: Path) -> None:
    async with agent() as target, prometheus(tmp_path, target) as url:
        history = await history_of(url)
    share = history.shares["team", "serve-1", "c", "GPU-1"]
    assert share.granted_bytes == 500 * MIB
    assert share.model == "Acme A100"
    assert share.peak_bytes == 300 * MIB  # of a single scrape
    assert share.held_s % 60 == 0
    assert share.measured_s == share.held_s > 0
    assert share.granted_card_s == share.held_s / 2  # of memory, more than a quarter of the cores
    assert share.gpu_s == pytest.approx(0.3 * share.held_s)
    assert share.throttled_card_s == pytest.approx(0.1 * share.held_s)
    assert share.idle_card_s == 0
    assert share.gaps == {"no-hook"}
    silent = history.shares["team", "silent", "c", ""]
    assert silent.measured_s == 0
    assert silent.held_s > 0
    owners = {one.owner: one.owner_kind for one in history.owners()}
    assert owners == {"serve": "Deployment", "silent": "Pod"}
