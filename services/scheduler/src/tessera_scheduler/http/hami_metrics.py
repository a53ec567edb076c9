"""`/hami/metrics`: the ledger under HAMi's names, for dashboards that know them.

It has a line for each card and share several times over, so it is not part of `/metrics`: it is
written in a thread, from a copy of the ledger, when it is scraped. `?legacy=true` adds the names of
HAMi's older releases.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from tessera_core.explain.hami_metrics import families, text
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.metrics import CONTENT_TYPE


def routes(ledger: Ledger) -> list[web.RouteDef]:
    """The routes for the server of health and metrics."""

    async def scrape(request: web.Request) -> web.Response:
        fleet = ledger.fleet.snapshot()
        grants = [entry.grant for entry in ledger.entries()]
        legacy = request.query.get("legacy", "") in ("1", "true")

        def written() -> bytes:
            return "".join(text(families(fleet, grants, legacy=legacy))).encode()

        body = await asyncio.to_thread(written)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    return [web.get("/hami/metrics", scrape)]
