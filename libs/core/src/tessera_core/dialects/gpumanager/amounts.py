"""What a pod asks for: core and memory units of each container, held to the rules.

Limits alone count. 1 to 99 core units are a part of one card and need memory; a multiple of 100
is whole cards, all of whose memory is then used, whatever was written. Source: gpu-admission and
gpu-manager, which let 150 through to the node, let `50` without memory run without any card, and
never look at init containers: here the first two are refused and the last are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tessera_core.dialect_kit import (
    INT32_MAX,
    Container,
    InvalidField,
    MemoryUnit,
    Pod,
    Role,
    field_of,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.gpumanager.names import BLOCK, CORE_HINT, MOST_BLOCKS, WHOLE, PrefixNames


class GpuManagerContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container asks for."""

    container: Container
    position: int
    role: Role
    names: PrefixNames
    field: str
    """The core field, for messages."""
    core: int
    """Percent of a card, or of all whole cards together."""
    blocks: int | None
    """Memory units as written; None where the field is missing."""

    @property
    def whole(self) -> bool:
        """True for whole cards."""
        return self.core >= WHOLE

    @property
    def cards(self) -> int:
        """How many cards. 150 counts as one, as in gpu-admission."""
        return max(self.core // WHOLE, 1)

    @property
    def needs_card(self) -> bool:
        """True where GPU Manager gives a card: a part of one needs memory."""
        return self.whole or (self.core > 0 and bool(self.blocks))


def read(pod: Pod, names: PrefixNames) -> tuple[GpuManagerContainerRequest, ...]:
    """The containers that name core or memory units above 0, however little sense they make.

    Raises InvalidField for what is no amount.
    """
    found = []
    for position, container, role in roles(pod):
        core = parse_amount(
            pod, position, names.core, where=("limits",), high=INT32_MAX, hint=CORE_HINT
        )
        blocks = _blocks(pod, position, names, whole=bool(core and core >= WHOLE))
        if core or blocks:
            found.append(
                GpuManagerContainerRequest(
                    container=container,
                    position=position,
                    role=role,
                    names=names,
                    field=field_of(pod, position, "limits", names.core),
                    core=core or 0,
                    blocks=blocks,
                )
            )
    return tuple(found)


def _blocks(pod: Pod, position: int, names: PrefixNames, *, whole: bool) -> int | None:
    """Memory units. Of whole cards they are for the records alone: any that can be kept will do."""
    if whole:
        return parse_amount(pod, position, names.memory, where=("limits",), high=MOST_BLOCKS)
    return parse_memory_amount(pod, position, names.memory, MemoryUnit(BLOCK), where=("limits",))


def given(pod: Pod, all_names: Sequence[PrefixNames]) -> tuple[GpuManagerContainerRequest, ...]:
    """The containers of a running pod that ask for cards, by the first prefix that it uses."""
    for names in all_names:
        try:
            found = tuple(ask for ask in read(pod, names) if ask.core)
        except InvalidField:
            continue
        if found:
            return found
    return ()


def container_requests(
    pod: Pod, all_names: Sequence[PrefixNames]
) -> tuple[GpuManagerContainerRequest, ...]:
    """The containers that ask for cards. Raises InvalidField for what can never run as meant."""
    found = [ask for names in all_names for ask in read(pod, names)]
    _refuse_two_prefixes(pod, found)
    for names in all_names:
        for position, _, _ in roles(pod):
            _refuse_requests_alone(pod, position, names)
    for ask in found:
        _check(pod, ask)
    return tuple(ask for ask in found if ask.core)


def _refuse_requests_alone(pod: Pod, position: int, names: PrefixNames) -> None:
    for name in (names.core, names.memory):
        if find_amount(pod, position, name, ("limits",)) is None:
            requested = find_amount(pod, position, name, ("requests",))
            if requested is not None and parse_amount(pod, position, name, where=("requests",)):
                raise invalid_field(
                    *requested, "write it under limits: requests alone give no card, and "
                    "Kubernetes refuses them."
                )  # fmt: skip


def _refuse_two_prefixes(pod: Pod, found: Sequence[GpuManagerContainerRequest]) -> None:
    other = next((ask for ask in found if ask.names != found[0].names), None)
    if other is not None:
        field, value = _written(pod, other)
        raise invalid_field(
            field, value,
            f"conflicts with {_written(pod, found[0])[0]}: write all of the pod's resources with "
            f"one prefix, {found[0].names.prefix}/ or {other.names.prefix}/.",
        )  # fmt: skip


def _written(pod: Pod, ask: GpuManagerContainerRequest) -> tuple[str, object]:
    """Field and value by which the container asks."""
    name = ask.names.core if ask.core else ask.names.memory
    return find_amount(pod, ask.position, name, ("limits",)) or (ask.field, ask.core)


def _check(pod: Pod, ask: GpuManagerContainerRequest) -> None:
    names = ask.names
    if ask.core > WHOLE and ask.core % WHOLE:
        below = ask.core // WHOLE * WHOLE
        raise invalid_field(
            ask.field, ask.core,
            f"write a multiple of {WHOLE} for whole cards, such as {below} or {below + WHOLE}, or "
            f"less than {WHOLE} for a part of one card.",
        )  # fmt: skip
    if ask.core and not ask.needs_card:
        raise invalid_field(
            ask.field, ask.core,
            f"a part of a card needs memory: add limits[{names.memory}] of 1 or more (units of "
            f"256 MiB), or write {WHOLE} for a whole card.",
        )  # fmt: skip
    if not ask.core and find_amount(pod, ask.position, names.core, ("limits",)) is None:
        raise invalid_field(
            *_written(pod, ask),
            f"memory alone gives no card: add limits[{names.core}], 1 to 99 for a part of a card "
            f"or {WHOLE} for a whole one.",
        )  # fmt: skip
