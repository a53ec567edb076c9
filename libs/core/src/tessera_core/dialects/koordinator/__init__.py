"""Koordinator: `koordinator.sh/gpu`, `gpu-core`, `gpu-memory`, `gpu-memory-ratio`, `gpu.shared`.

Its pods say what they want of NVIDIA cards in percent or in bytes; bytes are kept exact, so a
percent is rounded down to a byte and nothing is promised twice. Scopes, selectors and partitions
hold for cards; network cards, FPGAs, other vendors' cards and elastic quotas are not part of this.
"""

from __future__ import annotations

from functools import partial

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    Capacity,
    Dialect,
    Dimension,
    Example,
    Measure,
    QuotaUnit,
    core_policy,
)
from tessera_core.dialects.koordinator.injection import inject
from tessera_core.dialects.koordinator.inventory import DEVICES, inventory
from tessera_core.dialects.koordinator.names import (
    CHOICES,
    DEPRECATED,
    DIALECT,
    RESULT_KEYS,
    VENDOR,
    ResourceKind,
)
from tessera_core.dialects.koordinator.names import (
    KoordinatorOptions as Options,
)
from tessera_core.dialects.koordinator.priority_classes import priority_class
from tessera_core.dialects.koordinator.requests import admit, claim
from tessera_core.dialects.koordinator.result_annotations import annotate, labels, recorded

__all__ = ["Options", "dialect"]


def dialect(options: Options) -> Dialect:
    """The dialect as configured."""
    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=frozenset((*options.names.values(), *DEPRECATED.values())),
        shared_names=frozenset((options.resource_whole,)),
        plugin_resources=frozenset((options.resource_shared, options.resource_whole)),
        best_effort=partial(priority_class, options),
        result_keys=RESULT_KEYS,
        schedulers=(options.scheduler_name,),
        quota={
            options.resource_gpu: QuotaUnit(Dimension.CORES),
            options.resource_core: QuotaUnit(Dimension.CORES),
            options.resource_memory: QuotaUnit(Dimension.MEMORY),
            options.resource_shared: QuotaUnit(Dimension.CARDS),
        },
        capacity={
            options.resource_ratio: Capacity(Measure.MEMORY_PERCENT),
            DEPRECATED[ResourceKind.GPU]: Capacity(Measure.CORES),
            DEPRECATED[ResourceKind.CORE]: Capacity(Measure.CORES),
            DEPRECATED[ResourceKind.MEMORY]: Capacity(Measure.MEMORY),
            DEPRECATED[ResourceKind.RATIO]: Capacity(Measure.MEMORY_PERCENT),
        },
        claim=partial(claim, options),
        admit=partial(admit, options),
        annotate=partial(annotate, options),
        labels=partial(labels, options),
        inject=partial(inject, options),
        choices=CHOICES,
        custom_resources=(DEVICES,),
        inventory=inventory,
        recorded=partial(recorded, options),
        lending_terms=core_policy,
        lending_env=frozenset({CORE_POLICY_ENV}),
        example=Example(
            containers=(
                {options.resource_ratio: 33, options.resource_core: 10},
                {options.resource_gpu: 200},
            )
        ),
    )
