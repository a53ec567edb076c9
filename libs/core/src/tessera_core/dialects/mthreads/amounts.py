"""What a pod asks of Mthreads' cards, held to the rules of Mthreads' toolkit.

A container asks for several whole cards (count above 1), one whole card (count 1 and no memory)
or a part of a card (count 1 with memory). All containers of a pod live on one card, because the
toolkit reads one list of cards per pod; so whole cards leave no room for a second container.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from msgspec import Struct

from tessera_core.dialect_kit import (
    INT32_MAX,
    Container,
    InvalidField,
    MemoryUnit,
    Pod,
    Reason,
    Rejected,
    Role,
    find_amount,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.mthreads.options import (
    CORES,
    MEMORY_UNIT,
    SLICES,
    WHOLE_MEMORY,
    MthreadsOptions,
)


class MthreadsContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container asks, in Mthreads' units."""

    container: Container
    position: int
    role: Role
    count: int
    memory: int = 0
    """Units for the part of a card; 0 = whole cards."""
    cores: int = 0
    """Units for the part of a card."""
    given: tuple[int | None, int | None] = (None, None)
    """Memory and cores as written."""

    @property
    def whole(self) -> bool:
        """True for whole cards, which are the container's own."""
        return not self.memory

    @property
    def written(self) -> tuple[int, int, int | None]:
        """Count, memory and cores as the manifest has them after admission."""
        if self.whole:
            return self.count, WHOLE_MEMORY * self.count, CORES * self.count
        return self.count, self.memory, self.given[1]


def container_requests(options: MthreadsOptions, pod: Pod) -> tuple[MthreadsContainerRequest, ...]:
    """What every container asks, those left out that ask nothing.

    Raises InvalidField for what can never run.
    """
    each = [_container_request(options, pod, *place) for place in roles(pod)]
    found = tuple(a for a in each if a is not None)
    _check_one_card(options, pod, found)
    return found


def _container_request(
    options: MthreadsOptions, pod: Pod, position: int, container: Container, role: Role
) -> MthreadsContainerRequest | None:
    count = parse_amount(pod, position, options.count, hint="It counts cards, 1 at least.")
    memory = parse_memory_amount(
        pod, position, options.memory, MemoryUnit(MEMORY_UNIT), cards=count or 1
    )
    cores = parse_amount(
        pod, position, options.core, high=INT32_MAX, hint="One unit is a sixteenth of a card."
    )
    if count is None:
        _check_no_orphan(options, pod, position, memory or cores)
        return None
    if count == 0:
        _refuse(
            pod,
            position,
            options.count,
            "write 1 for a part of a card or one whole card, or take out all Mthreads resources",
        )
    asks = MthreadsContainerRequest(
        container=container, position=position, role=role, count=count, given=(memory, cores)
    )
    if count > 1 or memory is None or (memory, cores) == (WHOLE_MEMORY, CORES):
        return asks
    if memory not in SLICES:
        _refuse(
            pod, position, options.memory,
            f"a part of a card has one of {', '.join(map(str, SLICES))} units of 512 MiB; "
            "leave it out for the whole card",
        )  # fmt: skip
    if cores is not None and cores > CORES:
        _refuse(
            pod, position, options.core, f"a card has {CORES} core units; write at most that",
            Reason.CARD_INSUFFICIENT_CORE,
        )  # fmt: skip
    return MthreadsContainerRequest(
        container=container, position=position, role=role, count=1, memory=memory,
        cores=cores or 0, given=(memory, cores),
    )  # fmt: skip


def _check_no_orphan(options: MthreadsOptions, pod: Pod, position: int, given: int | None) -> None:
    """Memory or cores without a count would wait for ever, or run outside the ledger."""
    if given:
        name = options.memory if find_amount(pod, position, options.memory) else options.core
        _refuse(
            pod, position, name, f"it counts only beside a number of cards; add {options.count}: 1"
        )


def _check_one_card(
    options: MthreadsOptions, pod: Pod, found: Sequence[MthreadsContainerRequest]
) -> None:
    """A pod shares one card: refuse what its containers can never get together."""
    running = [a for a in found if a.role is not Role.INIT]
    starting = [a for a in found if a.role is not Role.APP]
    for phase in (starting, running):
        several = next((a for a in phase if a.count > 1), None)
        if several is not None and len(phase) > 1:
            _refuse(
                pod,
                several.position,
                options.count,
                "all containers of a pod share one Mthreads card, so a container with several "
                "cards must be the only one that asks; give the others a pod of their own",
                Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE,
            )
    whole = next((a for a in running if a.whole), None)
    if whole is not None and len(running) > 1:
        _refuse(
            pod, whole.position, options.count,
            "all containers of a pod share one Mthreads card, and this one takes it whole; give "
            f"it {options.memory} and {options.core}, or a pod of its own",
            Reason.CARD_INSUFFICIENT_CORE,
        )  # fmt: skip
    total = sum(a.cores for a in running)
    if total > CORES:
        last = max(a.position for a in running if a.cores)
        _refuse(
            pod, last, options.core,
            f"all containers of a pod share one Mthreads card, which has {CORES} core units; "
            f"together they ask for {total}",
            Reason.CARD_INSUFFICIENT_CORE,
        )  # fmt: skip


def _refuse(
    pod: Pod, position: int, name: str, remedy: str, reason: Reason = Reason.INVALID_REQUEST
) -> NoReturn:
    field, value = find_amount(pod, position, name) or (name, "")
    raise InvalidField(Rejected(field=field, value=str(value), remedy=remedy, reason=reason))
