"""What services do about reports of agents that do not count: count each, and log the first of each
node and reason."""

from __future__ import annotations

from typing import Final

from tessera_core.reports.doubts import Doubt
from tessera_runtime import logs
from tessera_runtime.metrics import Counter

MOST_LOGGED: Final = 10_000
"""Pairs of node and reason that are remembered as logged; beyond it the oldest are forgotten."""
_EARLY: Final = frozenset({Doubt.NODE, Doubt.CARD, Doubt.POD})
"""What an honest report may be doubted for: it may come before the API server has reported its
node's annotation or its pod, or after the pod has ended."""
_log: Final = logs.named("tessera.reports")


class DoubtedReports:
    """Counts doubts, and logs the first of each node and reason: a `doubts.Notice`."""

    def __init__(self, metric: Counter) -> None:
        """`metric` has one label, the reason; every reason begins at zero."""
        self._count = {doubt: metric.labels(doubt.value) for doubt in Doubt}
        self._logged: dict[tuple[str, Doubt], None] = {}

    def __call__(self, node: str, doubt: Doubt, what: str) -> None:
        """Count one; an empty node is one that is not known."""
        self._count[doubt].inc()
        if (node, doubt) in self._logged:
            return
        self._logged[node, doubt] = None
        if len(self._logged) > MOST_LOGGED:
            del self._logged[next(iter(self._logged))]
        log = _log.info if node and doubt in _EARLY else _log.warning
        log("report of an agent does not count", node=node, reason=doubt.value, why=what)
