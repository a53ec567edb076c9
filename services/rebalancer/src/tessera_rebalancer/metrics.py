"""The rebalancer's metrics: read when they are scraped, from what was published last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tessera_rebalancer.hint_publisher import HintPublisher
from tessera_rebalancer.usage_listener import UsageConsumer
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_schema.messages.hints import PRICED_PERCENTS

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

    def collect(self) -> Iterable[Metric]:
        """Every family, those without samples included."""
        nodes = GaugeMetricFamily(
            self._full("hinted_nodes"),
            "Nodes that are measured.",
            value=len(self._publisher.published),
        )
        yield nodes
        yield from self._of_cards()
        usage = self._usage
        yield self._counter("hints_told", "Messages with hints.", self._publisher.count)
        yield self._counter("usage_messages", "Measurements that counted.", usage.taken)
        yield self._counter("usage_messages_late", "Late ones and repeats.", usage.late)
        yield self._counter("usage_messages_unreadable", "Made no sense.", usage.unreadable)

    def _of_cards(self) -> Iterable[Metric]:
        busy = self._gauge("card_busy_percent", "GPU time of everybody on it.")
        waits = self._gauge("card_contended_percent", "Time that somebody waited.")
        cores = self._gauge("card_idle_cores_percent", "Cores granted and not used.")
        memory = self._gauge("card_idle_memory_bytes", "Memory granted and not used.")
        expected = self._gauge("card_expected_percent", "GPU time that its pods are to want.")
        price = self._gauge("card_price_percent", "What a pod of half a card would cost them.")
        for node, hints in self._publisher.published.items():
            for card in hints.cards:
                labels = node, card.card
                busy.add_metric(labels, card.busy_percent)
                waits.add_metric(labels, card.contended_percent)
                cores.add_metric(labels, card.idle_cores_percent)
                memory.add_metric(labels, card.idle_memory_bytes)
                expected.add_metric(labels, card.expected_percent)
                if card.prices:
                    price.add_metric(labels, card.prices[_HALF])
        yield from (busy, waits, cores, memory, expected, price)

    def _gauge(self, name: str, what: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._full(name), what, labels=("node", "card"))

    def _counter(self, name: str, what: str, value: float) -> Metric:
        family = CounterMetricFamily(self._full(name), what)
        family.add_metric((), value)
        return family
