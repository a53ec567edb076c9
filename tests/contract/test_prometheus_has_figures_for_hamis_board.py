"""A real Prometheus reads what the scheduler and an agent print, and evaluates each expression of
HAMi's Grafana board and web interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import ClientError, ClientSession

from tessera_embedded.ports import reserved_ports
from tests.contract.kubebin import kube_bin
from tests.contract.session_fixtures import or_skip
from tests.dialects.hami import published_queries as published
from tests.dialects.hami.published_queries import Query
from tests.dialects.hami.recorded import CARDS, CHARGED_MIB, GRANTS, NODE, serving_metrics, usage

Rows = list[dict[str, Any]]
MIB: Final = 1 << 20
POD: Final = GRANTS[0]
VARIABLES: Final = {
    "$node": NODE, "$namespace": POD.namespace, "$pod": POD.name, "$container": "main",
    "$device_uuid": CARDS[0].id,
}  # fmt: skip
MONITORS: Final = (
    Path(__file__).parents[2] / "deploy/kustomize/components/hami-metrics/monitors.yaml"
)


def configuration(urls: tuple[str, ...]) -> str:
    """As the operator makes it of the component's PodMonitors, with a pod for each target."""
    endpoints = [
        monitor["spec"]["podMetricsEndpoints"][0]
        for monitor in yaml.safe_load_all(MONITORS.read_text())
        if "quota" not in monitor["metadata"]["name"]
    ]
    jobs = [
        {
            "job_name": f"tessera-{number}",
            "metrics_path": endpoint["path"],
            "params": endpoint["params"],
            "honor_labels": endpoint["honorLabels"],
            "relabel_configs": [
                {"target_label": r["targetLabel"], "replacement": r["replacement"]}
                for r in endpoint["relabelings"]
            ],
            "static_configs": [
                {
                    "targets": [url.removeprefix("http://")],
                    "labels": {"namespace": "tessera-system", "pod": "its-own", "container": "c"},
                }
            ],
        }
        for number, (url, endpoint) in enumerate(zip(urls, endpoints, strict=True))
    ]
    # The second is how far apart points of a subquery are.
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return yaml.safe_dump({"global": every, "scrape_configs": jobs})


class Prometheus:
    """A server that runs."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def query(self, expression: str) -> Rows:
        query = {"query": expression}
        async with self._session.get("/api/v1/query", params=query) as answer:
            found = await answer.json()
        assert found["status"] == "success", f"{expression}: {found}"
        rows: Rows = found["data"]["result"]
        return rows

    async def until_scraped(self) -> None:
        """Both targets were read, and so long ago that a subquery has points."""
        last = filled_in(published.WEB_SERVER[0])
        async with asyncio.timeout(60):
            while True:
                try:
                    if len(await self.query("hami_build_info")) == 2 and await self.query(last):
                        return
                except ClientError:
                    pass  # it does not listen yet
                await asyncio.sleep(0.1)


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncGenerator[Prometheus]:
    with or_skip():
        program = await asyncio.to_thread(kube_bin, "prometheus")
    async with serving_metrics() as urls:
        with reserved_ports(1) as (port,):
            pass
        file = folder / "prometheus.yaml"
        file.write_text(configuration(urls))
        process = await asyncio.create_subprocess_exec(
            program / "prometheus", f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        )  # fmt: skip
        try:
            async with ClientSession(f"http://127.0.0.1:{port}") as session:
                server = Prometheus(session)
                await server.until_scraped()
                yield server
        finally:
            process.kill()
            await process.wait()


def filled_in(query: Query) -> str:
    expression = query.expression
    for variable in sorted(VARIABLES, key=len, reverse=True):
        expression = expression.replace(variable, VARIABLES[variable])
    return expression


@pytest.mark.timeout(600)
async def test_every_expression_has_figures(tmp_path: Path) -> None:
    async with prometheus(tmp_path) as server:
        for query in (*published.BOARD, *published.WEB_SERVER, *published.WEB_PAGES):
            rows = await server.query(filled_in(query))
            assert rows, f"nothing for {query.expression}"
            for row in rows:
                assert float(row["value"][1]) == float(row["value"][1]), query.expression  # no NaN
                assert set(query.legend) <= row["metric"].keys(), query.expression

        async def number(expression: str) -> float:
            (row,) = await server.query(expression)
            return float(row["value"][1])

        granted = sum(share.memory_bytes for grant in GRANTS for share in grant.shares)
        has = sum(card.memory_bytes for card in CARDS)
        board = [filled_in(query) for query in published.BOARD]
        assert await number(board[0]) == len(CARDS)
        assert await number(board[1]) == has
        assert await number(board[3]) == pytest.approx(100 * granted / has)
        used = await server.query(filled_in(published.BOARD[12]))
        assert {row["metric"]["pod"] for row in used} == {POD.name}
        assert await number(filled_in(published.WEB_SERVER[1])) == CHARGED_MIB[POD.uid] * MIB
        # All processes have one instance, so that sums by it are of the whole cluster.
        assert await number("avg(sum(hami_memory_used) by (instance))") == sum(
            load.memory_used_bytes // MIB for load in usage().cards
        )
        assert await number("avg(sum(hami_container_vgpu_allocated) by (instance))") == sum(
            len(grant.shares) for grant in GRANTS
        )
