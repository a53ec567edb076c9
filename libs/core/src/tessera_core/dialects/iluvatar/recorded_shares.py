"""What annotations on a bound pod say that it holds of Iluvatar's cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessera_core.dialect_kit import (
    BadQuantity,
    Card,
    Container,
    Pod,
    Quantity,
    RecordedShares,
    Role,
    Share,
    quantity_value,
    roles,
)
from tessera_core.dialect_kit.hami_format import annotation_field, shares_in_list
from tessera_core.dialects.iluvatar.options import CORES, MEMORY_UNIT, NAME, Form
from tessera_core.dialects.iluvatar.result_annotations import CARD_NUMBERS


def recorded(forms: Sequence[Form], pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """HAMi's lists in every form; without any, what gpu-manager's own scheduler wrote."""
    found = [h for h in (_by_list(form, pod, cards) for form in forms) if h is not None]
    if not found:
        older = next((form for form in forms if not form.model), None)
        return None if older is None else _by_numbers(older, pod, cards)
    problem = "; ".join(h.problem for h in found if h.problem)
    if problem:
        return RecordedShares(problem=problem)
    shares = sorted((s for h in found for s in h.shares), key=lambda s: s.position)
    return RecordedShares(shares=tuple(shares))


def _by_list(form: Form, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    asking = {
        position
        for position, container, _ in roles(pod)
        if form.count in {*container.resources.limits, *container.resources.requests}
    }
    return shares_in_list(pod, cards, key=form.allocated, vendor=NAME, dialect=NAME, asking=asking)


def _by_numbers(form: Form, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """Card numbers per app container; the amounts are those of the container's limits."""
    by_number = {str(card.index): card for card in cards}
    inits = len(pod.spec.init_containers)
    shares, named = [], False
    for number, container in enumerate(pod.spec.containers):
        key = f"{CARD_NUMBERS}{number}"
        text = pod.metadata.annotations.get(key)
        if text is None:
            continue
        named = True
        for word in text.split(","):
            card = by_number.get(word.strip())
            if card is None:
                field = annotation_field(key)
                return RecordedShares(problem=f"{field}: {text!r}: the node has no card {word!r}")
            shares.append(_share(form, container, inits + number, card))
    return RecordedShares(shares=tuple(shares)) if named else None


def _share(form: Form, container: Container, position: int, card: Card) -> Share:
    """100 cores and more are whole cards, less is a part of one."""
    cores = _units(container.resources.limits, form.core)
    memory = _units(container.resources.limits, form.memory) * MEMORY_UNIT
    whole = cores >= CORES
    return Share(
        container=container.name, position=position, role=Role.APP, vendor=NAME, dialect=NAME,
        card=card.id, index=card.index,
        memory_bytes=card.memory_bytes if whole or not memory else memory,
        cores_percent=min(cores, CORES), exclusive=whole,
    )  # fmt: skip


def _units(amounts: Mapping[str, Quantity], name: str) -> int:
    try:
        return max(quantity_value(amounts.get(name, 0)), 0)
    except BadQuantity:
        return 0
