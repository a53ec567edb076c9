"""Admission: the requests in canonical units, and what is odd about the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    Admitted,
    CardKey,
    Choice,
    ContainerRequest,
    NodeOrder,
    Pod,
    Policy,
    Request,
    complete_resources,
    field_of,
    parse_amount,
    roles,
)
from tessera_core.dialects.gpumanager.amounts import GpuManagerContainerRequest, container_requests
from tessera_core.dialects.gpumanager.core_ceiling import ceiling_warnings
from tessera_core.dialects.gpumanager.names import BLOCK, DIALECT, VENDOR, WHOLE, PrefixNames

POLICY: Final = Policy(node=NodeOrder.LEAST_FREE, cards=(CardKey.TIGHTEST,), choice=Choice.TREE)


def admit(pod: Pod, all_names: Sequence[PrefixNames]) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run as meant."""
    found = container_requests(pod, all_names)
    changes = {
        a.container.name: complete_resources(
            a.container, {a.names.core: a.core, a.names.memory: _blocks(a)}
        )
        for a in found
    }
    return Admitted(
        containers=tuple(
            ContainerRequest(
                container=a.container.name, position=a.position, role=a.role,
                requests=(_request(a),),
            )
            for a in found
        ),
        changes={name: change for name, change in changes.items() if change is not None},
        warnings=(
            *ceiling_warnings(pod, found, all_names),
            *_differing(pod, all_names),
            *_memory_in_vain(pod, all_names),
        ),
    )  # fmt: skip


def _blocks(ask: GpuManagerContainerRequest) -> int | None:
    """The memory that the pod goes on with. Next to whole cards it says nothing, and kubelet would
    hold it against the node's amount: more than the cards have would fail the pod."""
    return 0 if ask.whole and ask.blocks else ask.blocks


def _request(ask: GpuManagerContainerRequest) -> Request:
    """Whole cards are taken with all their memory, whatever was written: GPU Manager keeps that
    number for its records only."""
    if ask.whole:
        return Request(
            vendor=VENDOR, dialect=DIALECT, count=ask.cards, memory_percent=100, memory_unit=1,
            cores_percent=WHOLE, exclusive=True, policy=POLICY,
        )  # fmt: skip
    return Request(
        vendor=VENDOR, dialect=DIALECT, memory_bytes=(ask.blocks or 0) * BLOCK,
        cores_percent=ask.core, policy=POLICY,
    )  # fmt: skip


def _differing(pod: Pod, all_names: Sequence[PrefixNames]) -> list[str]:
    """Requests that differ from their limits. The API server refuses such pods, so that only
    manifests that never met one have them."""
    messages = []
    for position, _, _ in roles(pod):
        for name in (name for n in all_names for name in (n.core, n.memory)):
            limit = parse_amount(pod, position, name, where=("limits",))
            asked = parse_amount(pod, position, name, where=("requests",))
            if limit is not None and asked is not None and limit != asked:
                messages.append(
                    f"{field_of(pod, position, 'requests', name)}: {asked}: the limit {limit} "
                    "counts; write the same under both"
                )
    return messages


def _memory_in_vain(pod: Pod, all_names: Sequence[PrefixNames]) -> list[str]:
    """Memory next to an explicit core amount of 0, which asks for nothing."""
    messages = []
    for position, _, _ in roles(pod):
        for names in all_names:
            core = parse_amount(pod, position, names.core, where=("limits",))
            blocks = parse_amount(pod, position, names.memory, where=("limits",))
            if core == 0 and blocks:
                messages.append(
                    f"{field_of(pod, position, 'limits', names.memory)}: {blocks}: gives nothing, "
                    f"as {names.core} is 0"
                )
    return messages
