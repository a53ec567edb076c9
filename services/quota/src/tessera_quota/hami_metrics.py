"""ResourceQuotas under the names by which HAMi's scheduler exports them.

Only limits of cards' resources are quotas there. Where several ResourceQuotas limit one resource,
the lowest limit counts. Memory is in MiB, cores are in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web

from tessera_core.hami_metrics.family import Family, older
from tessera_core.ledger.ledger import Ledger
from tessera_quota.quota_objects import QuotaObjects
from tessera_runtime.build import hami_build_info
from tessera_runtime.http import hami_metrics
from tessera_runtime.http.hami_metrics import HamiScrape
from tessera_schema.cards import MIB
from tessera_schema.quotas import Limit

_LABELS: Final = ("namespace", "quota_name")
_LEGACY: Final = {"namespace": "quotanamespace", "quota_name": "quotaName", "limit": "limit"}


def route(objects: QuotaObjects, ledger: Ledger, revision: str = "") -> web.RouteDef:
    """The route for the quota monitor's server."""

    def read(wanted: HamiScrape) -> Callable[[], Iterable[Family]]:
        used, limits = families(objects, ledger)
        more = [older(used, "QuotaUsed", _LEGACY)] if wanted.legacy else []
        return lambda: [used, limits, *more, hami_build_info(revision)]

    return hami_metrics.route(read)


def families(objects: QuotaObjects, ledger: Ledger) -> tuple[Family, Family]:
    """What namespaces use of each resource that a ResourceQuota limits, and the limits."""
    lowest: dict[tuple[str, str], tuple[float, float]] = {}
    for limit in (limit for each in objects.foreign.values() for limit in each):
        use = ledger.allowance(limit.namespace).used(limit)
        resource = limit.source.partition("(limits.")[2].rstrip(")")
        have, most = _amount(limit, use.memory_bytes, use.cores_percent, use.cards)
        before = lowest.get((limit.namespace, resource), (have, most))
        lowest[limit.namespace, resource] = have, min(most, before[1])
    used = Family("hami_resource_quota_used", (*_LABELS, "limit"), [])
    limits = Family("hami_resource_quota_limit", _LABELS, [])
    for labels, (have, most) in lowest.items():
        used.samples.append(((*labels, f"{most:.12g}"), have))
        limits.samples.append((labels, most))
    return used, limits


def _amount(limit: Limit, memory: int, cores: float, cards: int) -> tuple[float, float]:
    if limit.memory_bytes is not None:
        return memory // MIB, limit.memory_bytes // MIB
    if limit.cores_percent is not None:
        return cores, limit.cores_percent
    return cards, limit.cards or 0
