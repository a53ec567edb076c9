"""The dialect of Mthreads' cards (MTT S4000 and its like), as HAMi speaks it.

`mthreads.com/vgpu` counts cards, `sgpu-memory` takes 512 MiB units and `sgpu-core` sixteenths of
a card. A pod shares one card; `vgpu` alone is a whole card, more of them whole cards. The cards
of a node are counted by its capacity; containers are served by Mthreads' own toolkit, which reads
the pod's annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tessera_core.dialect_kit import (
    CapacityScheme,
    Custom,
    Dialect,
    Dimension,
    Example,
    Inventory,
    Node,
    QuotaUnit,
    cards_from_capacity,
    claim_by_name,
)
from tessera_core.dialect_kit.hami_format import POLICY_KEYS, binding_labels
from tessera_core.dialects.mthreads.admission import CHOICES, admit
from tessera_core.dialects.mthreads.options import CORES, HAMI_SECTION, MEMORY_UNIT, NAME, WORD
from tessera_core.dialects.mthreads.options import MthreadsOptions as Options
from tessera_core.dialects.mthreads.result_annotations import KEYS, annotate, recorded

__all__ = ["HAMI_SECTION", "Options", "dialect"]


def dialect(options: Options) -> Dialect:
    """The dialect under these resource names."""
    names = frozenset({options.count, options.memory, options.core})
    counting = CapacityScheme(
        vendor=NAME,
        dialect=NAME,
        model=WORD,
        core=options.core,
        memory=options.memory,
        cores_per_card=CORES,
        memory_unit=MEMORY_UNIT,
    )

    def inventory(node: Node, _customs: Sequence[Custom]) -> tuple[Inventory, ...]:
        return cards_from_capacity(counting, node)

    return Dialect(
        name=NAME,
        vendor=NAME,
        resources=names,
        plugin_resources=frozenset({options.count}),
        result_keys=KEYS,
        schedulers=("hami-scheduler",),
        quota={
            options.count: QuotaUnit(Dimension.CARDS),
            options.memory: QuotaUnit(Dimension.MEMORY, MEMORY_UNIT),
            options.core: QuotaUnit(Dimension.CORES, 100 / CORES),
        },
        claim=partial(claim_by_name, names=names),
        admit=partial(admit, options),
        annotate=annotate,
        labels=binding_labels,
        choices=CHOICES | POLICY_KEYS,
        inventory=inventory,
        recorded=partial(recorded, options),
        example=Example(
            containers=(
                {options.count: 1, options.memory: 32, options.core: 5},
                {options.count: 1},
            ),
            node_capacity={options.count: 2, options.core: 2 * CORES, options.memory: 192},
        ),
    )
