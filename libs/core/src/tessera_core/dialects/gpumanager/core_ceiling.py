"""The ceiling up to which a pod's containers may use cores that nobody else uses.

`<prefix>/vcuda-core-limit` is an annotation because Kubernetes lets no limit of an extended
resource differ from its request. Without it the requested cores are a hard limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    InvalidField,
    LendingTerms,
    Pod,
    WrittenTerms,
    invalid_field,
    whole_number,
)
from tessera_core.dialects.gpumanager.amounts import GpuManagerContainerRequest, given
from tessera_core.dialects.gpumanager.names import WHOLE, PrefixNames

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


def ceiling(pod: Pod, names: PrefixNames) -> int | None:
    """Percent of a card, at most 100; None where the pod sets none. Raises InvalidField."""
    text = pod.metadata.annotations.get(names.core_limit)
    if text is None:
        return None
    number = int(text) if _INTEGER.fullmatch(text) else 0
    if number < 1:
        raise invalid_field(
            _field(names), text,
            'write a quoted whole number of percent from 1 to 100, such as "50", or leave it out.',
        )  # fmt: skip
    return min(number, WHOLE)


def terms(written: WrittenTerms, all_names: Sequence[PrefixNames]) -> LendingTerms:
    """Up to the ceiling; no more than it asked for without one, or with one that cannot be read.

    A node's agent reads it among the container's annotations, where the scheduler wrote it."""
    noted = (written.annotations.get(names.core_limit) for names in all_names)
    number = next((whole_number(text) for text in noted if text), None)
    return LendingTerms(
        most_percent=_requested_percent(written.pod, all_names) if number is None else number
    )


def _requested_percent(pod: Pod, all_names: Sequence[PrefixNames]) -> float:
    asked = given(pod, all_names)
    try:
        return (ceiling(pod, asked[0].names) if asked else None) or 0.0
    except InvalidField:
        return 0.0


def ceiling_warnings(
    pod: Pod, found: Sequence[GpuManagerContainerRequest], all_names: Sequence[PrefixNames]
) -> tuple[str, ...]:
    """Ceilings that will not do what was meant. Raises InvalidField for a malformed one."""
    if not found:
        return ()
    names = found[0].names
    messages = [
        f"{_field(other)}: is not read: the pod's resources begin with {names.prefix}/; rename it "
        f"{names.core_limit}"
        for other in all_names
        if other != names and other.core_limit in pod.metadata.annotations
    ]
    highest = ceiling(pod, names)
    if highest is None:
        return tuple(messages)
    where = f"{_field(names)}: {pod.metadata.annotations[names.core_limit]}"
    if int(pod.metadata.annotations[names.core_limit]) > WHOLE:
        messages.append(f"{where}: counts as {WHOLE}, one whole card")
    if all(ask.whole for ask in found):
        messages.append(f"{where}: has no effect: whole cards are not limited")
    messages += [
        f"{where}: is less than {ask.field}: {ask.core}; a ceiling leaves room above the request: "
        f"write {ask.core} to {WHOLE}"
        for ask in found
        if not ask.whole and ask.core > highest
    ]
    return tuple(messages)


def _field(names: PrefixNames) -> str:
    return f"metadata.annotations[{names.core_limit}]"
