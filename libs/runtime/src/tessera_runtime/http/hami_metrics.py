"""`/hami/metrics`: what a service knows, under HAMi's names, for dashboards that know them.

It has a line for each card and share several times over, so it is not part of `/metrics`: it is
written in a thread, when it is scraped. `?legacy=true` adds the names of HAMi's older releases,
`?web=true` those that HAMi's web interface exports, and `?standby=true` has a replica that does not
lead print what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aiohttp import web
from msgspec import Struct, convert

from tessera_core.hami_metrics.family import Family, text
from tessera_runtime.metrics import CONTENT_TYPE

PATH = "/hami/metrics"
_YES = ("1", "true")


class HamiScrape(Struct, frozen=True, kw_only=True):
    """What is wanted in addition to the names of the present release."""

    legacy: bool = False
    web: bool = False
    standby: bool = False


def route(read: Callable[[HamiScrape], Callable[[], Iterable[Family]]]) -> web.RouteDef:
    """The route for a service's server. `read` copies what must be read at once, and returns what
    makes metrics of the copy, in a thread."""

    async def scrape(request: web.Request) -> web.Response:
        wanted = {name: value in _YES for name, value in request.query.items()}
        made = read(convert(wanted, HamiScrape))
        body = await asyncio.to_thread(lambda: "".join(text(made())).encode())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    return web.get(PATH, scrape)
