"""Aliyun's gpushare: `aliyun.com/gpu-mem`, and `aliyun.com/gpu-core.percentage`.

Two releases of one system are understood: the open scheduler extender with its device plugin, and
the scheduler of ACK (Aliyun's managed Kubernetes), whose code Koordinator carries. A pod's memory
lies on one card; with the pod label `aliyun.com/gpu-count` it is divided evenly over several.

Sources: AliyunContainerService/gpushare-scheduler-extender c0b6141 (`pkg/utils/pod.go`,
`pkg/cache/nodeinfo.go`); AliyunContainerService/gpushare-device-plugin 45fb8b8
(`pkg/gpu/nvidia/const.go`, `allocate.go`); koordinator-sh/koordinator
(`pkg/scheduler/plugins/ack/gpushare`, `apis/extension/ack`); Alibaba Cloud's pages "Allocate
computing power by scheduling shared GPU" and "Enable Multi-GPU Sharing" (March 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

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
from tessera_core.dialects.aliyun.admission import admit
from tessera_core.dialects.aliyun.injection import inject
from tessera_core.dialects.aliyun.inventory import inventories
from tessera_core.dialects.aliyun.names import ASSIGNED, DIALECT, RESULT_KEYS, VENDOR
from tessera_core.dialects.aliyun.names import AliyunOptions as Options
from tessera_core.dialects.aliyun.recorded_shares import recorded_shares
from tessera_core.dialects.aliyun.result_annotations import annotate

__all__ = ["OPT_IN", "Options", "dialect"]

OPT_IN: Final = True
"""Its pods name no scheduler: kube-scheduler places them with the extender or ACK's plugin, on
nodes whose cards Tessera does not give."""


def dialect(options: Options) -> Dialect:
    """The dialect as configured."""
    resources = frozenset((options.memory, options.core))

    def give(placed: Placed, container: Container) -> Injection:
        return inject(placed, container, options)

    def cards_of(node: Node, _customs: Sequence[Custom]) -> Sequence[Inventory]:
        return inventories(node, options)

    def holds(pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
        return recorded_shares(pod, cards, options)

    return Dialect(
        name=DIALECT,
        vendor=VENDOR,
        resources=resources,
        plugin_resources=frozenset((options.memory,)),
        own_plugin_allocates=True,
        allocated_keys=ASSIGNED,
        result_keys=RESULT_KEYS,
        quota={
            options.memory: QuotaUnit(Dimension.MEMORY, options.unit_bytes),
            options.core: QuotaUnit(Dimension.CORES),
        },
        claim=partial(claim_by_name, names=resources),
        admit=partial(admit, options=options),
        annotate=partial(annotate, options=options),
        inject=give,
        inventory=cards_of,
        recorded=holds,
        example=Example(
            containers=({options.memory: 6}, {options.memory: 4, options.core: 25}),
        ),
    )
