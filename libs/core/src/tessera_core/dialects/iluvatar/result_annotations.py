"""What is written on a pod that was given Iluvatar's cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit import Placed, Share
from tessera_core.dialect_kit.hami_format import RESULT_KEYS, binding_notes, list_text
from tessera_core.dialects.iluvatar.amounts import IluvatarContainerRequest, container_requests
from tessera_core.dialects.iluvatar.options import Form

ASSIGNED: Final = "iluvatar.ai/gpu-assigned"
PREDICATE_TIME: Final = "iluvatar.ai/predicate-time"
CARD_NUMBERS: Final = "iluvatar.ai/predicate-gpu-idx-"
"""+ number of the container in spec.containers: gpu-manager counts no init containers."""


def result_keys(forms: Sequence[Form]) -> tuple[str, ...]:
    """All annotations that only a scheduler or a plugin writes."""
    lists = [key for form in forms for key in (form.to_allocate, form.allocated)]
    return (
        *RESULT_KEYS, *lists, ASSIGNED, PREDICATE_TIME, "iluvatar.ai/predicate-node",
        f"{CARD_NUMBERS}*",
    )  # fmt: skip


def annotate(forms: Sequence[Form], placed: Placed) -> dict[str, str]:
    """HAMi's lists, and for the older form the keys that gpu-manager allocates from."""
    asks = container_requests(forms, placed.pod)
    notes = binding_notes(placed)
    for form in forms:
        mine = tuple(s for s in placed.shares if _form_of(s, asks, placed) == form)
        if not mine:
            continue
        text = list_text(replace(placed, shares=mine), form.word)
        notes |= {form.to_allocate: text, form.allocated: text}
        if not form.model:
            notes |= _for_gpu_manager(placed, mine)
    return notes


def _form_of(share: Share, asks: Sequence[IluvatarContainerRequest], placed: Placed) -> Form | None:
    """The form in which the container asked for this card: a container may name several models."""
    forms = [a.form for a in asks if a.position == share.position]
    if len(forms) == 1:
        return forms[0]
    model = placed.cards[share.card].model.lower()
    fitting = [f for f in forms if f.model.lower() in model]
    return max(fitting, key=lambda f: len(f.model), default=None)


def _for_gpu_manager(placed: Placed, shares: Sequence[Share]) -> dict[str, str]:
    inits = len(placed.pod.spec.init_containers)
    numbers: dict[int, list[str]] = {}
    for share in shares:
        if share.position >= inits:
            numbers.setdefault(share.position - inits, []).append(str(share.index))
    return {
        ASSIGNED: "false",
        PREDICATE_TIME: str(placed.now_ns),
        **{f"{CARD_NUMBERS}{i}": ",".join(cards) for i, cards in numbers.items()},
    }
