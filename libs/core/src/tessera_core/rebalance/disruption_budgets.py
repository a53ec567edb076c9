"""How many pods may be away at a time: PodDisruptionBudgets, as Kubernetes counts them.

The API server decides when a pod is evicted; this is for not proposing what it would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tessera_core.kube.label_selectors import selects
from tessera_schema.kube import Pod
from tessera_schema.label_selectors import Selector


class Disruption(Struct, frozen=True, kw_only=True):
    """One budget."""

    namespace: str
    name: str
    selector: Selector
    allowed: int
    """Pods that may be evicted just now."""


def forbidden(budgets: Sequence[Disruption], pods: Iterable[Pod]) -> str:
    """Why these pods are not all evicted now, in numbers; empty when they may be."""
    asked: dict[int, int] = {}
    for pod in pods:
        mine = [i for i, budget in enumerate(budgets) if _guards(budget, pod)]
        if len(mine) > 1:
            names = " and ".join(budgets[i].name for i in mine)
            return f"{pod.name} has the disruption budgets {names}; Kubernetes evicts no such pod"
        for i in mine:
            asked[i] = asked.get(i, 0) + 1
    for i, count in asked.items():
        budget = budgets[i]
        if count > budget.allowed:
            of = f"{budget.namespace}/{budget.name}"
            return f"disruption budget {of} lets {budget.allowed} pods go now, {count} would"
    return ""


def _guards(budget: Disruption, pod: Pod) -> bool:
    namespace = pod.metadata.namespace or "default"
    return budget.namespace == namespace and selects(budget.selector, pod.metadata.labels)
