"""HAMi's way of asking for NVIDIA's cards.

    resources:
      limits:
        nvidia.com/gpu: 2                 # cards
        nvidia.com/gpumem: 3000           # MiB of each; or gpumem-percentage
        nvidia.com/gpucores: 30           # percent of each

Cards in MIG mode are recognised and left alone; MIG instances are not made.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    LOG_LEVEL_ENV,
    MIB,
    Capacity,
    Dialect,
    Dimension,
    Example,
    Measure,
    QuotaUnit,
    claim_by_name,
    hami_core_log_level,
)
from tessera_core.dialect_kit.hami_format import POLICY_KEYS, binding_labels
from tessera_core.dialects.hami import result_annotations
from tessera_core.dialects.hami.admission import CHOICES, VISIBLE_ENV, admit
from tessera_core.dialects.hami.inventory import inventory
from tessera_core.dialects.hami.options import HAMI_SECTION, NAME, VENDOR
from tessera_core.dialects.hami.options import HamiOptions as Options
from tessera_core.dialects.hami.terms import PRIORITY_ENV, terms

__all__ = ["HAMI_SECTION", "Options", "dialect"]


MOST_PRIORITY: Final = 100
"""A priority is written as a resource, so kubelet adds it up over a node's pods. A node has this
much of it for each container that its cards take."""


def dialect(options: Options) -> Dialect:
    """The dialect as configured. Memory, cores and cards count in quotas; HAMi counts no cards."""
    names = frozenset(options.names)
    return Dialect(
        name=NAME,
        vendor=VENDOR,
        resources=names,
        plugin_resources=frozenset({options.count}),
        result_keys=result_annotations.KEYS,
        plain_env={VISIBLE_ENV: "none"} if options.overwrite_env else {},
        schedulers=("hami-scheduler",),
        opt_out={"hami.io/webhook": "ignore"},
        quota={
            options.count: QuotaUnit(Dimension.CARDS),
            options.memory: QuotaUnit(Dimension.MEMORY, MIB * options.memory_factor),
            options.core: QuotaUnit(Dimension.CORES),
        },
        capacity={
            options.memory_percentage: Capacity(Measure.MEMORY_PERCENT),
            options.priority: Capacity(Measure.SLOTS, 1 / MOST_PRIORITY),
        },
        claim=lambda pod: claim_by_name(pod, names),
        admit=partial(admit, options),
        annotate=result_annotations.annotate,
        labels=binding_labels,
        choices=CHOICES | POLICY_KEYS,
        inject=partial(result_annotations.inject, options),
        inventory=partial(inventory, options),
        recorded=partial(result_annotations.recorded, options),
        lending_terms=terms,
        lending_env=frozenset({CORE_POLICY_ENV, PRIORITY_ENV}),
        log_level=hami_core_log_level,
        log_env=frozenset({LOG_LEVEL_ENV}),
        card_settings=options.card_settings,
        reads_node_config=True,
        example=_example(options),
    )


def _example(options: Options) -> Example:
    cards = [f"GPU-{i},10,16384,100,NVIDIA-A10,0,true,{i},hami-core:" for i in range(4)]
    return Example(
        containers=({options.count: 2, options.memory: 3000, options.core: 30},),
        node_annotations={"hami.io/node-nvidia-register": "".join(cards)},
    )
