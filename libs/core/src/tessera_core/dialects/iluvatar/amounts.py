"""What a pod asks of Iluvatar's cards, in either form.

Only a container with one card gets a part of it; several cards are whole cards, because the
vendor's plugin slices nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from msgspec import Struct

from tessera_core.dialect_kit import (
    Container,
    InvalidField,
    MemoryUnit,
    Pod,
    Role,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialect_kit.hami_format import field_in
from tessera_core.dialects.iluvatar.options import CORES, MEMORY_UNIT, Form


class IluvatarContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container asks in one form, in Iluvatar's units."""

    form: Form
    container: Container
    position: int
    role: Role
    count: int
    memory: int | None
    """Units of memory as written."""
    cores: int | None
    """Percent of one card, or of all cards together, as written."""

    @property
    def several(self) -> bool:
        """True for several cards, which are whole."""
        return self.count > 1

    @property
    def written_cores(self) -> int | None:
        """Core units as the manifest has them after admission."""
        return self.count * CORES if self.several else self.cores


def container_requests(forms: Sequence[Form], pod: Pod) -> tuple[IluvatarContainerRequest, ...]:
    """What every container asks in every form, in spec order; those left out that ask nothing.

    Raises InvalidField for what can never run.
    """
    found = []
    for position, container, role in roles(pod):
        if container.resources.limits or container.resources.requests:
            _check_one_form(forms, pod, position)
            each = (_container_request(form, pod, position, container, role) for form in forms)
            found += [a for a in each if a is not None]
    return tuple(found)


def _container_request(
    form: Form, pod: Pod, position: int, container: Container, role: Role
) -> IluvatarContainerRequest | None:
    count = parse_amount(pod, position, form.count, hint="It counts cards.")
    memory = parse_memory_amount(
        pod, position, form.memory, MemoryUnit(MEMORY_UNIT), cards=count or 1
    )
    cores = parse_amount(pod, position, form.core, hint="One unit is a percent of a card.")
    if count is None and (memory or cores):
        cards = -(-(cores or 1) // CORES)
        name = form.memory if memory else form.core
        _refuse(
            pod,
            position,
            name,
            f"it counts only beside a number of cards; add {form.count}: {cards}",
        )
    if not count:
        return None
    return IluvatarContainerRequest(
        form=form,
        container=container,
        position=position,
        role=role,
        count=count,
        memory=memory,
        cores=cores,
    )


def in_vain(forms: Sequence[Form], pod: Pod) -> list[str]:
    """Amounts next to a count of 0, as warnings. The amounts are those that `container_requests`
    accepted."""
    return [
        f"{field_in(pod, position, name)}: not used: {form.count} asks for 0 cards"
        for position, _, _ in roles(pod)
        for form in forms
        if parse_amount(pod, position, form.count) == 0
        for name in (form.memory, form.core)
        if parse_amount(pod, position, name)
    ]


def _given(pod: Pod, position: int, name: str) -> bool:
    """Whether more than 0 is asked; an amount that cannot be read is refused where it is used."""
    try:
        return bool(parse_amount(pod, position, name))
    except InvalidField:
        return False


def _check_one_form(forms: Sequence[Form], pod: Pod, position: int) -> None:
    """A container that asks in the older form and by model would be given cards twice."""
    names = {bool(f.model): n for f in forms for n in f.resources if _given(pod, position, n)}
    if len(names) > 1:
        _refuse(
            pod, position, names[True],
            f"this container also asks by {names[False]}, the older name for the same cards; "
            "keep one of the two",
        )  # fmt: skip


def _refuse(pod: Pod, position: int, name: str, remedy: str) -> NoReturn:
    field, value = find_amount(pod, position, name) or (name, "")
    raise invalid_field(field, value, remedy)
