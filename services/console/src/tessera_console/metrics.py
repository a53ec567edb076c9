"""The console's metrics: read when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tessera_console.cluster import ConsoleCluster
from tessera_console.handlers import ConsoleHandlers
from tessera_console.rights import Rights
from tessera_runtime.metrics import CounterMetricFamily, Metric, MetricsRegistry

_COUNTS: Final[Mapping[str, str]] = {
    "access_reviews": "TokenReviews and SubjectAccessReviews that were asked for.",
    "requests_refused": "Requests without a token that counts.",
    "reports_doubted": "Reports of agents, or parts of them, that do not count.",
    "events_unreadable": "Messages that could not be read.",
}


def register(
    metrics: MetricsRegistry, cluster: ConsoleCluster, handlers: ConsoleHandlers, rights: Rights
) -> None:
    """Add the families."""
    metrics.gauge("pages", "Pages that are open.").set_function(lambda: handlers.streaming)
    metrics.gauge("series", "Cards and pods whose last hour is remembered.").set_function(
        lambda: len(cluster.history)
    )
    metrics.gauge("series_left_out", "Cards and pods beyond the bound.").set_function(
        lambda: cluster.history.left_out
    )
    counts: Mapping[str, Callable[[], int]] = {
        "access_reviews": lambda: rights.reviews,
        "requests_refused": lambda: handlers.refused,
        "reports_doubted": lambda: cluster.feed.doubted,
        "events_unreadable": lambda: cluster.events.unreadable,
    }

    def collect() -> list[Metric]:
        found: list[Metric] = []
        for name, count in counts.items():
            family = CounterMetricFamily(metrics.full(name), _COUNTS[name])
            family.add_metric((), count())
            found.append(family)
        return found

    metrics.collect(collect)
