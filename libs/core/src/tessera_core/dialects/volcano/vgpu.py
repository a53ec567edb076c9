"""`volcano.sh/vgpu-*`: memory and cores of one or several cards per container.

Source: Volcano's vgpu devices (`deviceshare.VGPUEnable`) and the HAMi plugin that serves them.
Init containers are served as well, which Volcano leaves without cards.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    MIB,
    CardKey,
    Container,
    ContainerChange,
    ContainerRequest,
    Injection,
    MemoryUnit,
    Placed,
    Pod,
    Policy,
    Request,
    Role,
    card_list,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.volcano import codec, names
from tessera_core.dialects.volcano.fields import (
    first_field,
    limit_of,
    refuse_request_alone,
    refuse_unequal,
)
from tessera_core.dialects.volcano.options import VolcanoOptions

WHOLE: Final = 100
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_CARD_KEYS: Final = {
    "": (),
    "binpack": (CardKey.MOST_USED_MEMORY,),
    "spread": (CardKey.FEWEST_SHARERS,),
}
_SERVED_BY: Final = {names.HAMI_CORE: (names.HAMI_CORE, names.MPS), names.MIG: (names.MIG,)}
"""Mode that a pod asks for -> modes of cards that serve it: Volcano takes MPS for hami-core."""
_SECOND_NS: Final = 1_000_000_000
Holder = tuple[int, Container, Role]
"""Position, container, role."""
_CACHES: Final = "/tmp/vgpu"  # noqa: S108  (a name inside the container, part of the wire)


class VgpuContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container asks for, per card."""

    container: Container
    position: int
    role: Role
    field: str
    cards: int
    memory: int | None
    """Units of `vgpu_memory_factor` MiB; None = not named. Counts only without a percentage."""
    percent: int | None
    cores: int


class CardConstraints(Struct, frozen=True, kw_only=True):
    """What the pod's annotations say about cards, the same for all its containers."""

    models: tuple[str, ...] = ()
    models_denied: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    ids_denied: tuple[str, ...] = ()


def container_requests(pod: Pod, options: VolcanoOptions) -> tuple[VgpuContainerRequest, ...]:
    """The containers that ask for cards. Raises InvalidField."""
    if not options.vgpu:
        return ()
    found = (
        _container_request(pod, position, container, role, options)
        for position, container, role in roles(pod)
    )
    return tuple(ask for ask in found if ask)


def holders(pod: Pod, options: VolcanoOptions) -> tuple[Holder, ...]:
    """The containers of a running pod that were given cards, as Volcano reads it, which drops
    what makes no sense instead of refusing it: those with a number, else memory, in limits."""
    if not options.vgpu:
        return ()
    number, memory = options.vgpu_number_resource, options.vgpu_memory_resource
    return tuple(
        (position, container, role)
        for position, container, role in roles(pod)
        if limit_of(container, number if number in container.resources.limits else memory)
    )


def _container_request(
    pod: Pod, position: int, container: Container, role: Role, options: VolcanoOptions
) -> VgpuContainerRequest | None:
    number, memory_limit = options.vgpu_number_resource, options.vgpu_memory_resource
    cards = parse_amount(pod, position, number, where=("limits",), hint="The unit is one card.")
    refuse_request_alone(pod, position, number)
    refuse_unequal(pod, position, options.vgpu_names)
    memory = parse_memory_amount(
        pod, position, memory_limit, MemoryUnit(options.vgpu_memory_factor * MIB)
    )
    percent = _percent(pod, position, options)
    cores = parse_amount(
        pod,
        position,
        options.vgpu_cores_resource,
        high=WHOLE,
        hint="The unit is percent of one card; ask for more cards with vgpu-number.",
    )
    if cards is None:
        in_limits = find_amount(pod, position, memory_limit, ("limits",)) is not None
        cards = options.vgpu_default_number if memory and in_limits else 0
        if not cards and (memory or percent or cores):
            _refuse_without_cards(pod, position, options)
    if not cards:
        return None
    return VgpuContainerRequest(
        container=container,
        position=position,
        role=role,
        field=first_field(pod, position, options.vgpu_names),
        cards=cards,
        memory=options.vgpu_default_memory or None if not memory and percent is None else memory,
        percent=percent,
        cores=options.vgpu_default_cores if cores is None else cores,
    )


def _percent(pod: Pod, position: int, options: VolcanoOptions) -> int | None:
    """Percentage of memory. 0 is refused: HAMi-core takes a limit of 0 MiB for no limit."""
    name = options.vgpu_memory_percentage_resource
    if not name:
        return None
    hint = "The unit is percent of one card's memory."
    percent = parse_amount(pod, position, name, high=WHOLE, hint=hint)
    found = find_amount(pod, position, name)
    if percent == 0 and found:
        raise invalid_field(*found, "write 1 to 100, or leave it out to get the whole card.")
    return percent


def _refuse_without_cards(pod: Pod, position: int, options: VolcanoOptions) -> None:
    """Cores, a percentage or a memory request alone give no card: Volcano drops them silently."""
    found = (find_amount(pod, position, name) for name in options.vgpu_names)
    field, written = next(f for f in found if f and str(f[1]) != "0")
    raise invalid_field(
        field,
        written,
        f"asks for no card by itself; add limits[{options.vgpu_number_resource}]: 1.",
    )


def card_constraints(pod: Pod) -> CardConstraints:
    """Constraints of the pod's annotations. Raises InvalidField for an unknown mode."""
    annotations = pod.metadata.annotations
    models = codec.comma_list(annotations.get(names.USE_TYPE, ""))
    denied = codec.comma_list(annotations.get(names.NOUSE_TYPE, ""))
    mode = annotations.get(names.VGPU_MODE)
    if mode is not None and mode not in _SERVED_BY:
        raise invalid_field(
            f"metadata.annotations[{names.VGPU_MODE}]",
            mode,
            f"write {names.HAMI_CORE} (which also serves {names.MPS} cards), or leave it out.",
        )
    return CardConstraints(
        models=models,
        models_denied=() if models else denied,
        modes=_SERVED_BY[mode] if mode else (),
        ids=codec.comma_list(annotations.get(names.VGPU_USE_UUID, "")),
        ids_denied=codec.comma_list(annotations.get(names.VGPU_NOUSE_UUID, "")),
    )


def requests(
    found: tuple[VgpuContainerRequest, ...], wished: CardConstraints, options: VolcanoOptions
) -> tuple[ContainerRequest, ...]:
    """Canonical requests."""
    policy = Policy(
        node=options.vgpu_node_order,
        cards=_CARD_KEYS[options.schedule_policy],
        highest_index_first=not options.schedule_policy,
    )
    unit = options.vgpu_memory_factor * MIB
    return tuple(
        ContainerRequest(
            container=ask.container.name,
            position=ask.position,
            role=ask.role,
            requests=(
                Request(
                    vendor=names.VENDOR,
                    dialect=names.DIALECT,
                    count=ask.cards,
                    memory_bytes=0 if ask.percent else (ask.memory or 0) * unit,
                    memory_percent=ask.percent or (0 if ask.memory else WHOLE),
                    memory_unit=unit,
                    cores_percent=ask.cores,
                    exclusive=ask.cores >= WHOLE,
                    models=wished.models,
                    models_denied=wished.models_denied,
                    modes=wished.modes,
                    ids=wished.ids,
                    ids_denied=wished.ids_denied,
                    policy=policy,
                ),
            ),
        )
        for ask in found
    )


def changes(
    found: tuple[VgpuContainerRequest, ...], options: VolcanoOptions
) -> dict[str, ContainerChange]:
    """Limits and requests as they were understood, defaults filled in.

    A container that names only vgpu-memory gets its vgpu-number: without it kubelet would ask
    the plugin for nothing, and the container would see no card.
    """
    filled = {}
    for ask in found:
        amounts = {options.vgpu_number_resource: str(ask.cards)}
        if ask.memory:
            amounts[options.vgpu_memory_resource] = str(ask.memory)
        if ask.percent:
            amounts[options.vgpu_memory_percentage_resource] = str(ask.percent)
        if ask.cores:
            amounts[options.vgpu_cores_resource] = str(ask.cores)
        filled[ask.container.name] = ContainerChange(limits=amounts, requests=amounts)
    return filled


def warnings(
    pod: Pod,
    found: tuple[VgpuContainerRequest, ...],
    wished: CardConstraints,
    options: VolcanoOptions,
) -> tuple[str, ...]:
    """What was understood otherwise than it may have been meant."""
    messages = []
    asking = {ask.position for ask in found}
    for position, _, _ in roles(pod):
        field = first_field(pod, position, options.vgpu_names)
        if field and position not in asking:
            messages.append(f"{field}: 0: the container asks for no card")
    messages += [
        f"{first_field(pod, ask.position, (options.vgpu_memory_resource,))}: {ask.memory}: does "
        f"not count beside {options.vgpu_memory_percentage_resource}; remove one of them"
        for ask in found
        if ask.percent and ask.memory
    ]
    if wished.modes == (names.MIG,):
        messages.append(
            f"metadata.annotations[{names.VGPU_MODE}]: mig: the pod waits: Tessera does not give "
            f"MIG instances; write {names.HAMI_CORE} to share cards in software"
        )
    denied = pod.metadata.annotations.get(names.NOUSE_TYPE)
    if denied is not None and wished.models:
        messages.append(
            f"metadata.annotations[{names.NOUSE_TYPE}]: {denied}: ignored, as {names.USE_TYPE} wins"
        )
    return tuple(messages)


def annotate(placed: Placed, options: VolcanoOptions) -> dict[str, str]:
    """The keys that the vgpu device plugin looks for; times in seconds."""
    seconds = str(placed.now_ns // _SECOND_NS)
    listed = codec.devices_text(placed.shares, options.vgpu_memory_factor)
    return {
        names.VGPU_NODE: placed.node,
        names.VGPU_TIME: seconds,
        names.VGPU_IDS: listed,
        names.VGPU_TO_ALLOCATE: listed,
        names.BIND_PHASE: "success" if placed.agent_managed else "allocating",
        names.BIND_TIME: seconds,
    }


def inject(placed: Placed, container: Container, options: VolcanoOptions) -> Injection:
    """The plugin's environment; the hook library itself comes from the vendor."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    env = {_VISIBLE: card_list(shares)}
    for i, share in enumerate(shares):
        env[f"CUDA_DEVICE_MEMORY_LIMIT_{i}"] = f"{share.memory_mib}m"
    env["CUDA_DEVICE_SM_LIMIT"] = str(int(shares[0].cores_percent))
    env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{_CACHES}/{_cache_id(placed.pod, container)}.cache"
    if options.core_scaling > 1:
        env["CUDA_OVERSUBSCRIBE"] = "true"
    if options.disable_core_limit:
        env[CORE_POLICY_ENV] = "disable"
    return Injection(env=env)


def _cache_id(pod: Pod, container: Container) -> uuid.UUID:
    """A UUID as the plugin draws one, but the same each time the container is created."""
    seed = f"{pod.metadata.uid}/{container.name}".encode()
    return uuid.UUID(bytes=hashlib.sha256(seed).digest()[:16], version=4)
