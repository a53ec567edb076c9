"""A real Prometheus reads what the scheduler and an agent print, and evaluates each expression of
HAMi's Grafana board and web interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.contract.prometheus import Prometheus, prometheus, scrapes
from tests.dialects.hami import published_queries as published
from tests.dialects.hami.published_queries import Query
from tests.dialects.hami.recorded import CARDS, CHARGED_MIB, GRANTS, NODE, serving_metrics, usage

MIB: Final = 1 << 20
POD: Final = GRANTS[0]
VARIABLES: Final = {
    "$node": NODE, "$namespace": POD.namespace, "$pod": POD.name, "$container": "main",
    "$device_uuid": CARDS[0].id,
}  # fmt: skip
MONITORS: Final = (
    Path(__file__).parents[2] / "deploy/kustomize/components/hami-metrics/monitors.yaml"
)


@asynccontextmanager
async def scraping(folder: Path) -> AsyncGenerator[Prometheus]:
    """Prometheus, once both targets were read, and so long ago that a subquery has points."""
    async with serving_metrics() as (scheduler, agent):
        urls = {"tessera-scheduler-as-hami": scheduler, "tessera-agent-as-hami": agent}
        monitors = yaml.safe_load_all(MONITORS.read_text())
        jobs = list(scrapes(monitors, urls))
        assert len(jobs) == len(urls)
        async with prometheus(folder, {"scrape_configs": jobs}) as server:

            async def scraped() -> bool:
                targets = await server.query("hami_build_info")
                last = filled_in(published.WEB_SERVER[0])
                return len(targets) == 2 and bool(await server.query(last))

            await server.until(scraped)
            yield server


def filled_in(query: Query) -> str:
    expression = query.expression
    for variable in sorted(VARIABLES, key=len, reverse=True):
        expression = expression.replace(variable, VARIABLES[variable])
    return expression


@pytest.mark.timeout(600)
async def test_every_expression_has_figures(tmp_path: Path) -> None:
    async with scraping(tmp_path) as server:
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
