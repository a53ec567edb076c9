"""Admission: whose pod it is, and its requests in canonical units."""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import (
    MIB,
    SCHEDULER,
    Admitted,
    CardKey,
    Claim,
    ContainerRequest,
    NodeOrder,
    Pod,
    Policy,
    Request,
    claim_by_name,
    complete_resources,
)
from tessera_core.dialects.kai.amounts import KaiContainerRequest, container_requests, has_fraction
from tessera_core.dialects.kai.names import (
    DIALECT,
    FRACTION,
    MEMORY,
    MPS,
    QUEUE_LABELS,
    VENDOR,
    WHOLE,
    KaiOptions,
)
from tessera_core.dialects.kai.reservations import is_reservation

_POLICY: Final = Policy(node=NodeOrder.BINPACK, cards=(CardKey.MOST_USED_MEMORY,))
"""KAI's defaults: nodes are packed, and a card that is shared already comes first."""


def claim(options: KaiOptions, pod: Pod) -> Claim:
    """A fraction, in pods that name KAI's scheduler or Tessera's, or a queue; whole cards in pods
    that name KAI's scheduler, and in its reservation pods."""
    by_scheduler = pod.spec.scheduler_name in options.scheduler_names
    served = by_scheduler or pod.spec.scheduler_name == SCHEDULER
    in_queue = any(label in pod.metadata.labels for label in QUEUE_LABELS)
    fields = dict(claim_by_name(pod, frozenset((options.shares, options.whole))).fields)
    parts: dict[str, str] = {
        key: f"metadata.annotations[{key}]"
        for key in (FRACTION, MEMORY)
        if key in pod.metadata.annotations and (served or in_queue)
    }
    fields |= parts
    insists = (
        bool(parts) or by_scheduler or options.shares in fields or is_reservation(options, pod)
    )
    return Claim(fields, insists=True) if fields and insists else Claim()


def admit(options: KaiOptions, pod: Pod) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run as meant."""
    found = container_requests(pod, options)
    changes = {
        a.container.name: complete_resources(
            a.container, {options.whole if a.whole else options.shares: a.count}
        )
        for a in found
    }
    served = has_fraction(pod) and pod.metadata.annotations.get(MPS) == "true"
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
            f"metadata.annotations[{MPS}]: true: not used: no MPS server is started or mounted",
        )
        if served
        else (),
    )  # fmt: skip


def _request(a: KaiContainerRequest) -> Request:
    if a.whole:
        return Request(
            vendor=VENDOR, dialect=DIALECT, count=a.count, memory_percent=WHOLE, memory_unit=1,
            cores_percent=WHOLE, exclusive=True, policy=_POLICY,
        )  # fmt: skip
    return Request(
        vendor=VENDOR, dialect=DIALECT, count=a.count, memory_bytes=a.mib * MIB,
        memory_percent=round(a.fraction * WHOLE, 3), policy=_POLICY,
    )  # fmt: skip
