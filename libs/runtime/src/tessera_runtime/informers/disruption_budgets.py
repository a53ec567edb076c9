"""Disruption budgets of the cluster, followed by a watch or listed once."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from tessera_core.kube.label_selectors import parse_selector
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_runtime import logs
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.lists import ObjectReader, UnreadableObject, identity, pages
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder

BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
_PAGE: Final = 500
_log: Final = logs.named("tessera.informers.disruption_budgets")


class _BudgetSpec(Struct, frozen=True):
    selector: dict[str, Any] | None = None


class _BudgetStatus(Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class _Budget(Struct, frozen=True):
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


_budget = decoder(_Budget)


def read_budget(raw: bytes) -> Disruption:
    """Raises msgspec.DecodeError and ValueError. Without a selector it guards no pod."""
    of, budget = identity(raw), _budget(raw)
    if budget.spec.selector is None:
        return Disruption(namespace="", name=of.name, selector=(), allowed=0)
    return Disruption(
        namespace=of.namespace, name=of.name, selector=parse_selector(budget.spec.selector),
        allowed=budget.status.disruptions_allowed,
    )  # fmt: skip


async def list_budgets(kube: Kube) -> list[Disruption]:
    """All of them, by a quorum read. Raises as `Kube.call` does."""
    reader = ObjectReader(BUDGETS, read_budget, _unreadable)
    return [
        budget
        async for page in pages(kube, BUDGETS, limit=_PAGE)
        for budget in reader.objects(page)
    ]


def _unreadable(what: UnreadableObject) -> None:
    _log.warning(
        "disruption budget not readable", namespace=what.object.namespace, name=what.object.name,
        why=what.why,
    )  # fmt: skip


class DisruptionBudgets:
    """All disruption budgets; a handler."""

    def __init__(self) -> None:
        self._known: dict[str, Disruption] = {}

    @property
    def all(self) -> tuple[Disruption, ...]:
        """All budgets."""
        return tuple(self._known.values())

    def watched(self) -> ListWatch[Disruption]:
        """What to list and watch."""
        return ListWatch(BUDGETS, read_budget)

    def on_list(self, items: list[Disruption], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self._known = {f"{item.namespace}/{item.name}": item for item in items}

    def on_event(self, change: WatchEventType, item: Disruption, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        key = f"{item.namespace}/{item.name}"
        if change is WatchEventType.DELETED:
            self._known.pop(key, None)
        else:
            self._known[key] = item
