"""GPU Manager (gpu-manager with gpu-admission): `<prefix>/vcuda-core` and `vcuda-memory`.

100 core units are one card, 1 memory unit is 256 MiB. Tencent's and Inspur's prefixes are both
understood, though not in one pod. Cards are chosen on the tree of their links, as the node agent
does, so that it agrees with the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tessera_core.dialect_kit import (
    Card,
    Container,
    Custom,
    Dialect,
    Dimension,
    Example,
    Injection,
    Inventory,
    Node,
    Placed,
    Pod,
    QuotaUnit,
    RecordedShares,
    claim_by_name,
)
from tessera_core.dialects.gpumanager.admission import admit
from tessera_core.dialects.gpumanager.core_ceiling import terms
from tessera_core.dialects.gpumanager.devices import inject
from tessera_core.dialects.gpumanager.inventory import inventories
from tessera_core.dialects.gpumanager.names import BLOCK, DIALECT, VENDOR, PrefixNames
from tessera_core.dialects.gpumanager.options import GpuManagerOptions as Options
from tessera_core.dialects.gpumanager.quota import POOL_LABELS
from tessera_core.dialects.gpumanager.recorded_shares import recorded
from tessera_core.dialects.gpumanager.result_annotations import annotate

__all__ = ["Options", "dialect"]


def dialect(options: Options) -> Dialect:
    """GPU Manager as configured."""
    all_names = tuple(PrefixNames(prefix) for prefix in options.prefixes)
    resources = frozenset(name for n in all_names for name in (n.core, n.memory))

    def give(placed: Placed, container: Container) -> Injection:
        return inject(placed, container, options, all_names)

    def cards_of(node: Node, _customs: Sequence[Custom]) -> Sequence[Inventory]:
        return inventories(node, options, all_names)

    def holds(pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
        return recorded(pod, cards, all_names)

    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=resources,
        plugin_resources=frozenset(n.core for n in all_names),
        own_plugin_allocates=True,
        allocated_keys=frozenset(n.assigned for n in all_names),
        result_keys=tuple(key for n in all_names for key in n.results),
        quota=_quota(all_names),
        claim=partial(claim_by_name, names=resources),
        admit=partial(admit, all_names=all_names),
        annotate=partial(annotate, all_names=all_names),
        inject=give,
        lending_terms=partial(terms, all_names=all_names),
        inventory=cards_of,
        recorded=holds,
        pool_labels=POOL_LABELS,
        example=Example(
            containers=(
                {all_names[0].core: 30, all_names[0].memory: 10},
                {all_names[-1].core: 200},
            )
        ),
    )


def _quota(all_names: Sequence[PrefixNames]) -> Mapping[str, QuotaUnit]:
    cores = {n.core: QuotaUnit(Dimension.CORES) for n in all_names}
    memory = {n.memory: QuotaUnit(Dimension.MEMORY, BLOCK) for n in all_names}
    return {**cores, **memory}
