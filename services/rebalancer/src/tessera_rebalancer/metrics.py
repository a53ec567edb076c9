"""The rebalancer's metrics: read when they are scraped, from what was published last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from tessera_rebalancer.hint_publisher import HintPublisher
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.metrics import (
    CounterMetricFamily,
    GaugeMetricFamily,
    GaugeOfMany,
    Metric,
    MetricsRegistry,
)
from tessera_schema.messages.hints import PRICED_PERCENTS, CardHint, NodeHints

_HALF: Final = PRICED_PERCENTS.index(50)


class RebalancerMetrics:
    """The families of hints and usage."""

    def __init__(
        self, registry: MetricsRegistry, publisher: HintPublisher, usage: UsageConsumer
    ) -> None:
        """Registers itself."""
        self._full = registry.full
        self._publisher = publisher
        self._usage = usage
        registry.collect(self.collect)
        registry.collect_many(self.collect_cards)

    def collect(self) -> Iterable[Metric]:
        """Every family but those of cards."""
        yield GaugeMetricFamily(
            self._full("hinted_nodes"),
            "Nodes that are measured.",
            value=len(self._publisher.published),
        )
        usage = self._usage
        yield self._counter("hints_told", "Messages with hints.", self._publisher.count)
        yield self._counter("usage_messages", "Measurements that counted.", usage.taken)
        yield self._counter("usage_messages_late", "Late ones and repeats.", usage.late)
        yield self._counter("usage_messages_unreadable", "Made no sense.", usage.unreadable)

    def collect_cards(self) -> Iterable[GaugeOfMany]:
        """A sample of each card of the cluster, for each of its figures."""
        busy, waits = attrgetter("busy_percent"), attrgetter("contended_percent")
        cores, memory = attrgetter("idle_cores_percent"), attrgetter("idle_memory_bytes")
        expected = attrgetter("expected_percent")
        yield self._gauge("card_busy_percent", "GPU time of everybody on it.", busy)
        yield self._gauge("card_contended_percent", "Time that somebody waited.", waits)
        yield self._gauge("card_idle_cores_percent", "Cores granted and not used.", cores)
        yield self._gauge("card_idle_memory_bytes", "Memory granted and not used.", memory)
        yield self._gauge("card_expected_percent", "GPU time that its pods are to want.", expected)
        yield self._gauge(
            "card_price_percent", "What a pod of half a card would cost them.", _price
        )

    def _gauge(self, name: str, what: str, read: Callable[[CardHint], float | None]) -> GaugeOfMany:
        nodes = tuple(self._publisher.published.values())
        return GaugeOfMany(self._full(name), what, ("node", "card"), _samples(nodes, read))

    def _counter(self, name: str, what: str, value: float) -> Metric:
        family = CounterMetricFamily(self._full(name), what)
        family.add_metric((), value)
        return family


def _samples(
    nodes: Sequence[NodeHints], read: Callable[[CardHint], float | None]
) -> Iterator[tuple[tuple[str, str], float]]:
    for hints in nodes:
        for card in hints.cards:
            value = read(card)
            if value is not None:
                yield (hints.node, card.card), value


def _price(card: CardHint) -> float | None:
    return card.prices[_HALF] if card.prices else None
