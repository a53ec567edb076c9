"""What a container asks of NVIDIA's cards in HAMi's words, with HAMi's defaults.

A container that gives only a number of cards gets them whole: all memory and, as `gpucores: 100`,
for itself. With memory it shares them; cores are then only promised where it asks for some.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    INT32_MAX,
    MIB,
    Container,
    MemoryUnit,
    Pod,
    Role,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.hami.options import HamiOptions

WHOLE: Final = 100
"""Percent."""


class HamiContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container names, as written; None where it names nothing."""

    container: Container
    position: int
    role: Role
    count: int = 0
    """Cards, default applied."""
    memory: int | None = None
    """Units of `memory_factor` MiB."""
    percentage: int | None = None
    cores: int | None = None
    priority: int | None = None

    @property
    def written_cores(self) -> int | None:
        """Cores as the manifest has them after admission: whole cards come with all of their
        cores."""
        whole = self.percentage == WHOLE or (self.percentage is None and self.memory is None)
        return WHOLE if self.cores is None and self.count and whole else self.cores

    def amounts(self, options: HamiOptions) -> dict[str, int | None]:
        """Resource name -> amount as the manifest has it after admission."""
        names = self.container.resources.limits.keys() | self.container.resources.requests.keys()
        count = self.count if self.count or options.count in names else None
        given = (count, self.memory, self.percentage, self.written_cores, self.priority)
        return dict(zip(options.names, given, strict=True))

    def memory_bytes(self, options: HamiOptions) -> int:
        """Memory of each card; 0 = by percentage. A number beats a percentage."""
        if self.memory:
            return self.memory * options.memory_factor * MIB
        return 0 if self.percentage else options.default_memory * MIB

    def memory_percent(self, options: HamiOptions) -> int:
        """Percentage of each card; 0 = by number."""
        return 0 if self.memory_bytes(options) else self.percentage or WHOLE

    def cores_percent(self, options: HamiOptions) -> int:
        """Cores of each card; a card has no more than 100."""
        written = self.written_cores
        return options.default_cores if written is None else min(written, WHOLE)


def container_requests(options: HamiOptions, pod: Pod) -> tuple[HamiContainerRequest, ...]:
    """What every container that names one of the resources asks, in spec order.

    Raises InvalidField for what can never run.
    """
    names = frozenset(options.names)
    return tuple(
        _container_request(options, pod, position, container, role)
        for position, container, role in roles(pod)
        if not names.isdisjoint(container.resources.limits)
        or not names.isdisjoint(container.resources.requests)
    )


def _container_request(
    options: HamiOptions, pod: Pod, position: int, container: Container, role: Role
) -> HamiContainerRequest:
    def read(name: str, hint: str, high: int = INT32_MAX) -> int | None:
        return parse_amount(pod, position, name, high=high, hint=hint)

    count = read(options.count, "It counts cards.")
    unit = MemoryUnit(options.memory_factor * MIB)
    memory = parse_memory_amount(pod, position, options.memory, unit)
    percentage = read(options.memory_percentage, "It is a percentage of a card's memory.", 100)
    cores = read(options.core, "It is a percentage of a card's cores.")
    if count is None:
        count = _default_count(options, pod, position)
    return HamiContainerRequest(
        container=container,
        position=position,
        role=role,
        count=count,
        memory=memory,
        percentage=percentage,
        cores=cores,
        priority=read(options.priority, "0 goes before 1."),
    )


def _default_count(options: HamiOptions, pod: Pod, position: int) -> int:
    """Cards where only memory or cores are named; a priority alone asks for none."""
    for name in (options.memory, options.memory_percentage, options.core):
        found = find_amount(pod, position, name)
        if found is not None and not options.default_gpu_num:
            raise invalid_field(
                found[0], found[1],
                f"it counts only beside a number of cards; add {options.count}: 1",
            )  # fmt: skip
        if found is not None:
            return options.default_gpu_num
    return 0
