"""The last measurement under HAMi's names: what its monitor exports on each node, and what its web
interface makes of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from tessera_agent.metrics import AgentMetrics
from tessera_core.hami_metrics import monitor
from tessera_core.hami_metrics.family import Family
from tessera_core.hami_metrics.web_interface import usage_families
from tessera_runtime.build import hami_build_info
from tessera_runtime.clock import Clock
from tessera_runtime.http import hami_metrics
from tessera_runtime.http.hami_metrics import HamiScrape


def route(metrics: AgentMetrics, clock: Clock, revision: str = "") -> web.RouteDef:
    """The route for the agent's server."""

    def read(wanted: HamiScrape) -> Callable[[], Iterable[Family]]:
        snapshot, now_s = metrics.take_snapshot(), clock.time()

        def families() -> Iterable[Family]:
            usage = snapshot.usage
            if usage is not None:
                yield from monitor.families(usage, snapshot.cards, now_s, legacy=wanted.legacy)
                if wanted.web:
                    yield from usage_families(usage, snapshot.cards)
            yield hami_build_info(revision)

        return families

    return hami_metrics.route(read)
