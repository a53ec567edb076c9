"""`volcano.sh/gpu-memory` and `volcano.sh/gpu-number`: one shared card, or whole idle cards.

Source: Volcano's gpushare devices and its device plugin. Limits count, requests never do. All
containers of a gpu-memory pod live on one card; a gpu-number pod owns its cards.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    INT32_MAX,
    MIB,
    Container,
    ContainerChange,
    ContainerRequest,
    Injection,
    MemoryUnit,
    NodeOrder,
    Placed,
    Pod,
    Policy,
    Request,
    Role,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.volcano import codec
from tessera_core.dialects.volcano.fields import (
    first_field,
    limit_of,
    refuse_request_alone,
    refuse_unequal,
)
from tessera_core.dialects.volcano.names import DIALECT, GPU_INDEX, PREDICATE_TIME, VENDOR
from tessera_core.dialects.volcano.options import VolcanoOptions

WHOLE: Final = 100


class GpushareContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container asks for; exactly one of `memory` and `cards` is above 0."""

    container: Container
    position: int
    role: Role
    field: str
    memory: int = 0
    """Units of `gpu_memory_factor` MiB."""
    cards: int = 0


def container_requests(pod: Pod, options: VolcanoOptions) -> tuple[GpushareContainerRequest, ...]:
    """The containers that ask for more than 0. Raises InvalidField."""
    found = []
    for position, container, role in roles(pod):
        refuse_unequal(pod, position, options.gpushare_names)
        for name in options.gpushare_names:
            memory = name == options.gpu_memory_resource
            units = _limit(pod, position, name, options) or 0
            if units:
                found.append(
                    GpushareContainerRequest(
                        container=container,
                        position=position,
                        role=role,
                        field=first_field(pod, position, (name,)),
                        memory=units if memory else 0,
                        cards=0 if memory else units,
                    )
                )
    _refuse_both(found)
    return tuple(found)


def given(pod: Pod, options: VolcanoOptions) -> tuple[GpushareContainerRequest, ...]:
    """What a running pod was given, as Volcano reads it, which refuses nothing.

    Memory counts before cards: where both are named, Volcano shares.
    """
    most = INT32_MAX // options.gpu_memory_factor
    for name in options.gpushare_names:
        memory = name == options.gpu_memory_resource
        found = tuple(
            GpushareContainerRequest(
                container=container,
                position=position,
                role=role,
                field=first_field(pod, position, (name,)),
                memory=min(units, most) if memory else 0,
                cards=0 if memory else units,
            )
            for position, container, role in roles(pod)
            if (units := limit_of(container, name))
        )
        if found:
            return found
    return ()


def _limit(pod: Pod, position: int, name: str, options: VolcanoOptions) -> int | None:
    """The limit, None without one. An amount under requests alone would silently be nothing."""
    if name == options.gpu_memory_resource:
        unit = MemoryUnit(options.gpu_memory_factor * MIB)
        limit = parse_memory_amount(pod, position, name, unit, where=("limits",))
    else:
        limit = parse_amount(
            pod, position, name, where=("limits",), hint="The unit is one whole card."
        )
    refuse_request_alone(pod, position, name)
    return limit


def _refuse_both(found: list[GpushareContainerRequest]) -> None:
    sharing = next((a for a in found if a.memory), None)
    owning = next((a for a in found if a.cards), None)
    if sharing and owning:
        raise invalid_field(
            owning.field,
            owning.cards,
            f"conflicts with {sharing.field}: a pod takes a part of one card or whole cards; "
            "remove one of the two.",
        )


def requests(
    found: tuple[GpushareContainerRequest, ...], options: VolcanoOptions
) -> tuple[ContainerRequest, ...]:
    """Canonical requests, lowest card first."""
    policy = Policy(node=NodeOrder(options.node_order))
    return tuple(
        ContainerRequest(
            container=ask.container.name,
            position=ask.position,
            role=ask.role,
            requests=(_request(ask, policy, options),),
        )
        for ask in found
    )


def _request(ask: GpushareContainerRequest, policy: Policy, options: VolcanoOptions) -> Request:
    if ask.memory:
        return Request(
            vendor=VENDOR,
            dialect=DIALECT,
            memory_bytes=ask.memory * options.gpu_memory_factor * MIB,
            together=True,
            policy=policy,
        )
    return Request(
        vendor=VENDOR,
        dialect=DIALECT,
        count=ask.cards,
        memory_percent=WHOLE,
        memory_unit=1,
        cores_percent=WHOLE,
        exclusive=True,
        policy=policy,
    )


def changes(
    found: tuple[GpushareContainerRequest, ...], options: VolcanoOptions
) -> dict[str, ContainerChange]:
    """Requests next to the limits, as Kubernetes demands of extended resources."""
    return {
        ask.container.name: ContainerChange(limits=amounts, requests=amounts)
        for ask in found
        for amounts in (
            {options.gpu_memory_resource: str(ask.memory)}
            if ask.memory
            else {options.gpu_number_resource: str(ask.cards)},
        )
    }


def annotate(placed: Placed) -> dict[str, str]:
    """Both keys ride in the Binding."""
    return {
        GPU_INDEX: codec.index_text(placed.shares),
        PREDICATE_TIME: str(placed.now_ns),
    }


def inject(placed: Placed, container: Container) -> Injection:
    """What the device plugin adds; unlike there, a container sees its own cards only."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    first = shares[0]
    card = placed.cards.get(first.card)
    return Injection(
        env={
            "NVIDIA_VISIBLE_DEVICES": codec.index_text(shares),
            "VOLCANO_GPU_ALLOCATED": str(len(shares) if first.exclusive else first.memory_mib),
            "VOLCANO_GPU_MEMORY_TOTAL": str(card.memory_mib if card else 0),
        }
    )
