"""What services do about reports of agents that do not count: count each, and log the first of each
node and reason."""

from __future__ import annotations

from typing import Final

from tessera_core.reports.doubts import Doubt
from tessera_runtime import logs
from tessera_runtime.metrics import Counter

MOST_LOGGED: Final = 10_000
"""Pairs of node and reason that are remembered as logged; beyond it the oldest are forgotten."""
_log: Final = logs.named("tessera.reports")


class DoubtedReports:
    """A `tessera_core.reports.doubts.Notice`."""

    def __init__(self, metric: Counter) -> None:
        """`metric` has one label, the reason; every reason begins at zero."""
        self._count = {doubt: metric.labels(doubt.value) for doubt in Doubt}
        self._logged: dict[tuple[str, Doubt], None] = {}

    def __call__(self, node: str, doubt: Doubt, what: str) -> None:
        """Takes one; an empty node is one that is not known."""
        self._count[doubt].inc()
        if (node, doubt) in self._logged:
            return
        self._logged[node, doubt] = None
        if len(self._logged) > MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        _log.warning("report of an agent does not count", node=node, reason=doubt.value, why=what)
