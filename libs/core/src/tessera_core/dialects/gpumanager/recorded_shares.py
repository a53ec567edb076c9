"""What the annotations say that a bound pod holds.

The scheduler writes card numbers by order, the node agent afterwards (`gpu-assigned: "true"`)
minor numbers. gpu-admission counts nothing for a number that the node does not have, nor for a
container without a key: here such a pod is a problem, and is counted by its own requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.dialect_kit import Card, InvalidField, Pod, RecordedShares, Role, Share
from tessera_core.dialects.gpumanager.amounts import GpuManagerContainerRequest, read
from tessera_core.dialects.gpumanager.names import BLOCK, DIALECT, VENDOR, WHOLE, PrefixNames
from tessera_core.dialects.gpumanager.result_annotations import DONE, indices


class _Undecodable(Exception):
    """The message says what cannot be decoded and why."""


def recorded(
    pod: Pod, cards: Sequence[Card], all_names: Sequence[PrefixNames]
) -> RecordedShares | None:
    """The pod's shares; None where no scheduler of this dialect wrote on it."""
    shares: list[Share] = []
    written = False
    for names in all_names:
        if not _is_written(pod, names):
            continue
        try:
            asking = [a for a in read(pod, names) if a.role is Role.APP]
            shares += [s for a in asking for s in _shares(pod, a, cards)]
            written = written or bool(asking)
        except InvalidField as e:
            return RecordedShares(problem=e.rejected.message)
        except _Undecodable as e:
            return RecordedShares(problem=str(e))
    return RecordedShares(shares=tuple(shares)) if written else None


def _is_written(pod: Pod, names: PrefixNames) -> bool:
    keys = (names.time, names.node, names.assigned)
    notes = pod.metadata.annotations
    return any(k in notes for k in keys) or any(k.startswith(names.index) for k in notes)


def _shares(pod: Pod, ask: GpuManagerContainerRequest, cards: Sequence[Card]) -> list[Share]:
    key = f"{ask.names.index}{ask.position - len(pod.spec.init_containers)}"
    text = pod.metadata.annotations.get(key)
    if text is None:
        if ask.needs_card:
            raise _undecodable(key, "", f"is missing, and container {ask.container.name} needs it")
        return []
    found = indices(text)
    if found is None:
        raise _undecodable(key, text, "is not a list of card numbers such as 0,1,3")
    if len(found) != ask.cards:
        raise _undecodable(
            key, text, f"names {len(found)} cards, {ask.field}: {ask.core} means {ask.cards}"
        )
    known = _numbered(pod, ask.names, cards)
    unknown = [i for i in found if i not in known]
    if unknown:
        raise _undecodable(key, text, f"the node has no card {unknown[0]}")
    return [_share(ask, known[i]) for i in found]


def _undecodable(key: str, text: str, what: str) -> _Undecodable:
    where = f"metadata.annotations[{key}]"
    return _Undecodable(f"{where}: {text[:80]!r}: {what}" if text else f"{where}: {what}")


def _numbered(pod: Pod, names: PrefixNames, cards: Sequence[Card]) -> dict[int, Card]:
    """The cards by the numbers that this pod's annotations use."""
    own = [card for card in cards if card.vendor == VENDOR]
    if pod.metadata.annotations.get(names.assigned) == DONE:
        return {card.device_minor: card for card in own}
    return {card.index: card for card in own}


def _share(ask: GpuManagerContainerRequest, card: Card) -> Share:
    """A part as it was asked for; a whole card with all that it has."""
    return Share(
        container=ask.container.name, position=ask.position, role=ask.role, vendor=VENDOR,
        dialect=DIALECT, card=card.id, index=card.index,
        memory_bytes=card.memory_bytes if ask.whole else (ask.blocks or 0) * BLOCK,
        cores_percent=WHOLE if ask.whole else ask.core,
        exclusive=ask.whole,
    )  # fmt: skip
