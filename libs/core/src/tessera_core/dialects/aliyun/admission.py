"""Admission: the requests in canonical units, and what is odd about the manifest."""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import (
    Admitted,
    CardKey,
    ContainerRequest,
    NodeOrder,
    Pod,
    Policy,
    Request,
    complete_resources,
)
from tessera_core.dialects.aliyun.amounts import (
    AliyunContainerRequest,
    cards_of,
    container_requests,
)
from tessera_core.dialects.aliyun.names import (
    COUNT_LABEL,
    DIALECT,
    VENDOR,
    WHOLE_DEVICE_LABEL,
    AliyunOptions,
)

_POLICIES: Final = {
    "binpack": Policy(node=NodeOrder.BINPACK, cards=(CardKey.MOST_USED_MEMORY,)),
    "spread": Policy(node=NodeOrder.SPREAD, cards=(CardKey.FEWEST_SHARERS,)),
}


def admit(pod: Pod, options: AliyunOptions) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run as meant."""
    found = container_requests(pod, options)
    cards = cards_of(pod)
    changes = {
        a.container.name: complete_resources(
            a.container, {options.memory: a.memory, options.core: a.core or None}
        )
        for a in found
    }
    return Admitted(
        containers=tuple(
            ContainerRequest(
                container=a.container.name, position=a.position, role=a.role,
                requests=(_request(a, cards, options),),
            )
            for a in found
        ),
        changes={name: change for name, change in changes.items() if change is not None},
        warnings=_warnings(pod, found, cards) if found else (),
    )  # fmt: skip


def _request(a: AliyunContainerRequest, cards: int, options: AliyunOptions) -> Request:
    """On one card all containers of a pod live together, as its device plugin gives one card to a
    pod."""
    return Request(
        vendor=VENDOR, dialect=DIALECT, count=cards,
        memory_bytes=a.memory // cards * options.unit_bytes, memory_unit=options.unit_bytes,
        cores_percent=a.core // cards, together=cards == 1, policy=_POLICIES[options.placement],
    )  # fmt: skip


def _warnings(pod: Pod, found: tuple[AliyunContainerRequest, ...], cards: int) -> tuple[str, ...]:
    warnings = []
    labels = pod.metadata.labels
    if WHOLE_DEVICE_LABEL in labels:
        warnings.append(
            f"metadata.labels[{WHOLE_DEVICE_LABEL}]: {labels[WHOLE_DEVICE_LABEL]}: not used: a "
            "card that other pods use may be given"
        )
    if cards > 1 and len(found) > 1:
        warnings.append(
            f"metadata.labels[{COUNT_LABEL}]: {cards}: each of the {len(found)} containers gets "
            f"{cards} cards, which need not be the same"
        )
    return tuple(warnings)
