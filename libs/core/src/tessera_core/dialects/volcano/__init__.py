"""Volcano on NVIDIA cards: gpushare (`volcano.sh/gpu-*`) and vgpu (`volcano.sh/vgpu-*`).

The wire is Volcano's: resource names, units, annotations, environment. Gangs, queues, node
locks and MIG instances are not offered: a pod that names a group or a queue is warned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    MIB,
    Admitted,
    Capacity,
    Card,
    CardSettings,
    Container,
    Custom,
    Dialect,
    Dimension,
    Example,
    Injection,
    Inventory,
    Measure,
    Node,
    Placed,
    Pod,
    QuotaUnit,
    RecordedShares,
    Rejected,
    claim_by_name,
    core_policy,
    invalid_field,
    never_best_effort,
)
from tessera_core.dialects.volcano import gpushare, ignored, podgroup, vgpu
from tessera_core.dialects.volcano.inventory import inventories
from tessera_core.dialects.volcano.names import CHOICES, DIALECT, RESULT_KEYS, VENDOR
from tessera_core.dialects.volcano.options import VolcanoOptions as Options
from tessera_core.dialects.volcano.options import settled
from tessera_core.dialects.volcano.preemptable import preemptable
from tessera_core.dialects.volcano.recorded_shares import recorded

__all__ = ["Options", "dialect"]


def dialect(options: Options) -> Dialect:
    """Volcano as configured. Raises ValueError for arguments or names that make no sense."""
    made, warnings = settled(options)
    names = frozenset((*made.gpushare_names, *made.vgpu_names))

    def cards_of(node: Node, _customs: Sequence[Custom]) -> tuple[Inventory, ...]:
        return inventories(node, made)

    def holds(pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
        return recorded(pod, cards, made)

    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=names,
        plugin_resources=frozenset(names & made.allocated_names),
        result_keys=RESULT_KEYS,
        schedulers=("volcano",),
        quota={name: unit for name, unit in _quota(made).items() if name in names},
        capacity={
            made.gpu_number_resource: Capacity(Measure.CARDS),
            made.vgpu_memory_percentage_resource: Capacity(Measure.MEMORY_PERCENT),
        },
        choices=CHOICES,
        claim=partial(claim_by_name, names=names),
        admit=partial(_admit, options=made),
        annotate=partial(_annotate, options=made),
        inject=partial(_inject, options=made),
        inventory=cards_of,
        recorded=holds,
        best_effort=preemptable if made.preemptable_is_best_effort else never_best_effort,
        lending_terms=core_policy,
        lending_env=frozenset({CORE_POLICY_ENV}),
        card_settings=_card_settings(made),
        warnings=warnings,
        example=Example(
            containers=(
                {made.gpu_memory_resource: 1024},
                {made.gpu_number_resource: 2},
                {
                    made.vgpu_number_resource: 2,
                    made.vgpu_memory_resource: 500,
                    made.vgpu_cores_resource: 20,
                },
            )
        ),
    )


def _card_settings(options: Options) -> CardSettings:
    return CardSettings(core_scaling=options.core_scaling if options.core_scaling != 1 else None)


def _quota(options: Options) -> dict[str, QuotaUnit]:
    cards = QuotaUnit(Dimension.CARDS)
    return {
        options.gpu_memory_resource: QuotaUnit(Dimension.MEMORY, options.gpu_memory_factor * MIB),
        options.gpu_number_resource: cards,
        options.vgpu_number_resource: cards,
        options.vgpu_memory_resource: QuotaUnit(Dimension.MEMORY, options.vgpu_memory_factor * MIB),
        options.vgpu_cores_resource: QuotaUnit(Dimension.CORES),
    }


def _admit(pod: Pod, options: Options) -> Admitted | Rejected:
    sharing = gpushare.container_requests(pod, options)
    virtual = vgpu.container_requests(pod, options)
    messages = podgroup.warnings(pod)
    if sharing and virtual:
        raise invalid_field(
            virtual[0].field,
            "",
            f"conflicts with {sharing[0].field}: gpushare and vgpu are two ways of sharing; use "
            "one of them in a pod.",
        )
    if sharing:
        return Admitted(
            containers=gpushare.requests(sharing, options),
            changes=gpushare.changes(sharing, options),
            warnings=(*ignored.by_gpushare(pod), *messages),
        )
    wished = vgpu.card_constraints(pod) if virtual else vgpu.CardConstraints()
    return Admitted(
        containers=vgpu.requests(virtual, wished, options),
        changes=vgpu.changes(virtual, options),
        warnings=(
            *vgpu.warnings(pod, virtual, wished, options),
            *(ignored.by_vgpu(pod) if virtual else ()),
            *messages,
        ),
    )


def _annotate(placed: Placed, options: Options) -> Mapping[str, str]:
    if not placed.shares:
        return {}
    if vgpu.container_requests(placed.pod, options):
        return vgpu.annotate(placed, options)
    return gpushare.annotate(placed)


def _inject(placed: Placed, container: Container, options: Options) -> Injection:
    if vgpu.container_requests(placed.pod, options):
        return vgpu.inject(placed, container, options)
    return gpushare.inject(placed, container)
