"""The agent's metrics: read when they are scraped, from the last snapshot.

Next to Tessera's own there are the four gauges of GPU Manager, with its names, labels and units, so
that its users' dashboards go on (`container_gpu_memory_total` is a gauge despite its name, and what
is requested counts in cards).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from tessera_core.fleet.charges import Charge
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import Spoilt
from tessera_runtime.metrics import CounterMetricFamily, GaugeMetricFamily, Metric, MetricsRegistry
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage

_CARD: Final = ("card", "index", "model")
_USE: Final = ("namespace", "pod", "container", "card")
_BASE: Final = ("pod_name", "namespace", "node", "container_name")
_TOTAL: Final = "total"


class GrantedAmounts(Struct, frozen=True, kw_only=True):
    """What a container of a pod with shares was granted, in all; nothing for its others."""

    namespace: str
    pod: str
    container: str
    cards: float = 0
    """1 = the cores of a whole card."""
    memory_bytes: int = 0


class MetricsSnapshot(Struct, frozen=True, kw_only=True):
    """The figures of one moment."""

    node: str
    cards: Sequence[Card] = ()
    held: Mapping[str, Charge] = {}
    """Card -> what containers hold of it."""
    usage: NodeUsage | None = None
    peaks: Mapping[tuple[str, str, str], int] = {}
    """Pod's uid, container, card's key (`uuid_key`) -> the most memory of this hour and the one
    before, in bytes."""
    requested: Sequence[GrantedAmounts] = ()
    problems: int = 0
    """Sentences in the state that was last published."""
    spoilt: Mapping[Spoilt, int] = {}
    silent_polls: int = 0
    overwritten: int = 0


class AgentMetrics:
    """Collects metrics from the latest snapshot."""

    def __init__(self, registry: MetricsRegistry, node: str) -> None:
        self.take_snapshot: Callable[[], MetricsSnapshot] = partial(MetricsSnapshot, node=node)
        """The figures after the last measurement: nothing is put together before a scrape."""
        self._full = registry.full
        self._failed: Counter[str] = Counter()
        """Card -> allocations that its driver refused although the container's limit had room."""
        registry.collect(self.collect)

    def count(self, usage: NodeUsage) -> None:
        """Add what happened in one measurement; each is counted once."""
        for container in usage.containers:
            for use in container.cards:
                self._failed[use.card] += use.failed_for_others

    def collect(self) -> Iterable[Metric]:
        """Every family, those without samples included."""
        snapshot = self.take_snapshot()
        yield from self._of_cards(snapshot)
        yield from self._of_containers(snapshot)
        yield from self._over_time(snapshot)
        yield from _of_gpumanager(snapshot)
        yield from self._of_the_agent(snapshot)

    def _gauge(self, name: str, what: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._full(name), what, labels=labels)

    def _counter(self, name: str, what: str, labels: Sequence[str] = ()) -> CounterMetricFamily:
        return CounterMetricFamily(self._full(name), what, labels=labels)

    def _of_cards(self, snapshot: MetricsSnapshot) -> Iterable[Metric]:
        memory = self._gauge("card_memory_bytes", "Memory that can be granted of a card.", _CARD)
        physical = self._gauge("card_memory_physical_bytes", "Memory that a card has.", _CARD)
        granted = self._gauge("card_memory_granted_bytes", "Memory that containers hold.", _CARD)
        promised = self._gauge(
            "card_memory_promised_bytes", "What of it lies on the card, whatever others use.", _CARD
        )
        cores = self._gauge("card_cores_granted_percent", "Cores that containers hold.", _CARD)
        shares = self._gauge("card_shares", "Shares that containers hold.", _CARD)
        healthy = self._gauge("card_healthy", "1 = the card takes pods.", _CARD)
        used = self._gauge("card_memory_used_bytes", "As its driver sees it.", _CARD)
        busy = self._gauge("card_busy_percent", "Time with work on the card.", _CARD)
        loads = {load.card: load for load in snapshot.usage.cards} if snapshot.usage else {}
        for card in snapshot.cards:
            labels = (card.id, str(card.index), card.model)
            memory.add_metric(labels, card.memory_bytes)
            physical.add_metric(labels, card.physical_bytes or card.memory_bytes)
            held = snapshot.held.get(card.id, Charge())
            granted.add_metric(labels, held.memory_bytes)
            promised.add_metric(labels, held.resident_bytes)
            cores.add_metric(labels, held.cores_percent)
            shares.add_metric(labels, held.slots)
            if not card.hidden:  # it takes no pods, as it should
                healthy.add_metric(labels, float(card.healthy and not card.cordoned))
            if card.id in loads:
                used.add_metric(labels, loads[card.id].memory_used_bytes)
                busy.add_metric(labels, loads[card.id].cores_percent)
        yield from (memory, physical, granted, promised, cores, shares, healthy, used, busy)

    def _of_containers(self, snapshot: MetricsSnapshot) -> Iterable[Metric]:
        fields = {
            "memory_bytes": "Device memory in use.",
            "memory_limit_bytes": "Device memory allowed; 0 = no limit.",
            "managed_bytes": "Device memory in use that may lie in the host's memory.",
            "cores_percent": "GPU time over the last interval.",
            "cores_limit_percent": "GPU time allowed; 0 = no limit.",
            "throttled_percent": "Time that launches were held back.",
            "processes": "Processes that use the card.",
        }
        families = {
            field: self._gauge(f"container_{field}", what, _USE) for field, what in fields.items()
        }
        enforced = self._gauge("container_enforced", "0 = something escapes limits.", _USE[:3])
        gaps = self._gauge("container_gap", "Why limits may not hold.", (*_USE[:3], "gap"))
        for use in snapshot.usage.containers if snapshot.usage else ():
            labels = (use.namespace, use.pod, use.container)
            enforced.add_metric(labels, float(use.enforced))
            for gap in use.gaps:
                gaps.add_metric((*labels, gap), 1)
            for card in use.cards:
                for field, family in families.items():
                    family.add_metric((*labels, card.card), getattr(card, field))
        yield from (*families.values(), enforced, gaps)

    def _over_time(self, snapshot: MetricsSnapshot) -> Iterable[Metric]:
        peak = self._gauge(
            "container_memory_peak_bytes", "The most of this hour and the one before.", _USE
        )
        allocated = self._gauge(
            "container_allocated_bytes_per_second",
            "Device memory taken over the last interval, whatever was given back.", _USE,
        )  # fmt: skip
        kernels = self._gauge(
            "container_kernel_seconds", "The time within which so many launches ended.",
            (*_USE, "quantile"),
        )  # fmt: skip
        for use in snapshot.usage.containers if snapshot.usage else ():
            for card in use.cards:
                labels = (use.namespace, use.pod, use.container, card.card)
                known = snapshot.peaks.get((use.uid, use.container, uuid_key(card.card)), 0)
                peak.add_metric(labels, max(known, card.memory_bytes))
                allocated.add_metric(labels, card.allocated_bytes_per_s)
                if card.kernel_times:
                    kernels.add_metric((*labels, "0.5"), card.kernel_p50_us / 1e6)
                    kernels.add_metric((*labels, "0.99"), card.kernel_p99_us / 1e6)
        yield from (peak, allocated, kernels)

    def _of_the_agent(self, snapshot: MetricsSnapshot) -> Iterable[Metric]:
        problems = self._gauge("problems", "What is wrong with driver, cards or runtime.")
        problems.add_metric((), snapshot.problems)
        silent = self._counter("silent_polls", "Polls that the driver did not answer.")
        silent.add_metric((), snapshot.silent_polls)
        overwritten = self._counter("inventory_overwritten", "Changes by others, undone.")
        overwritten.add_metric((), snapshot.overwritten)
        spoilt = self._counter("usage_files_spoilt", "Usage files not believed.", ("why",))
        for why in Spoilt:
            spoilt.add_metric((why,), snapshot.spoilt.get(why, 0))
        failed = self._counter(
            "allocations_failed_for_others", "Refused by the driver, not by a limit.", ("card",)
        )
        for card in snapshot.cards:
            failed.add_metric((card.id,), self._failed[card.id])
        yield from (problems, silent, overwritten, spoilt, failed)


def _of_gpumanager(snapshot: MetricsSnapshot) -> Iterable[Metric]:
    utilization = GaugeMetricFamily(
        "container_gpu_utilization", "GPU time, percent of a card.", labels=(*_BASE, "gpu")
    )
    memory = GaugeMetricFamily(
        "container_gpu_memory_total", "Device memory in use, MiB.", labels=(*_BASE, "gpu_memory")
    )
    requested = GaugeMetricFamily(
        "container_request_gpu_utilization", "GPU time granted, in cards.",
        labels=(*_BASE, "req_of_gpu"),
    )  # fmt: skip
    requested_memory = GaugeMetricFamily(
        "container_request_gpu_memory", "Device memory granted, MiB.",
        labels=(*_BASE, "req_of_gpu_memory"),
    )  # fmt: skip
    index = {card.id: card.index for card in snapshot.cards}
    for use in snapshot.usage.containers if snapshot.usage else ():
        base = (use.pod, use.namespace, snapshot.node, use.container)
        for name, cores, mib in _by_card(use, index):
            utilization.add_metric((*base, name), cores)
            memory.add_metric((*base, name), mib)
    for one in snapshot.requested:
        base = (one.pod, one.namespace, snapshot.node, one.container)
        requested.add_metric((*base, _TOTAL), one.cards)
        requested_memory.add_metric((*base, _TOTAL), one.memory_bytes // MIB)
    yield from (utilization, memory, requested, requested_memory)


def _by_card(use: ContainerUse, index: Mapping[str, int]) -> list[tuple[str, float, int]]:
    rows = [_row(card, index) for card in use.cards]
    return [*rows, (_TOTAL, sum(r[1] for r in rows), sum(r[2] for r in rows))]


def _row(card: CardUse, index: Mapping[str, int]) -> tuple[str, float, int]:
    return f"gpu{index.get(card.card, card.card)}", card.cores_percent, card.memory_bytes // MIB
