"""The ledger under HAMi's names: what its scheduler exports, and what its web interface makes of
the register of its device plugin.

Only the replica that leads prints it, unless all are asked to: sums over cards would count those of
each replica."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from tessera_core.hami_metrics import ledger as ledger_families
from tessera_core.hami_metrics.family import Family
from tessera_core.hami_metrics.web_interface import allocation_families
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.build import hami_build_info
from tessera_runtime.http import hami_metrics
from tessera_runtime.http.hami_metrics import HamiScrape


def route(ledger: Ledger, leads: Callable[[], bool], revision: str = "") -> web.RouteDef:
    """The route for the server of health and metrics."""

    def read(wanted: HamiScrape) -> Callable[[], Iterable[Family]]:
        if not (leads() or wanted.standby):
            return lambda: [hami_build_info(revision)]
        fleet = ledger.fleet.snapshot()
        grants = [entry.grant for entry in ledger.entries()]

        def families() -> Iterable[Family]:
            yield from ledger_families.families(fleet, grants, legacy=wanted.legacy)
            if wanted.web:
                yield from allocation_families(fleet, grants)
            yield hami_build_info(revision)

        return families

    return hami_metrics.route(read)
