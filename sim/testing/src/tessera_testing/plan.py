"""Plan pods end to end in one call: what `tessera place` does, without files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import load
from tessera_schema.kube import Custom, Node, Pod
from tessera_schema.quotas import Limit
from tessera_schema.verdicts import PlanOutcome

NOW_NS = 1_700_000_000_000_000_000


def plan(
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    *,
    bound: Sequence[Pod] = (),
    customs: Sequence[Custom] = (),
    limits: Sequence[Limit] = (),
    config: Mapping[str, Mapping[str, Any]] | None = None,
    extra: Iterable[ModuleType] = (),
    now_ns: int = NOW_NS,
) -> list[PlanOutcome]:
    """The outcomes of the pods, in order, on these nodes."""
    cluster = Cluster(nodes=nodes, bound=bound, customs=customs, limits=limits)
    planner = Planner(load(config, extra), cluster)
    return [planner.plan(pod, now_ns) for pod in pods]
