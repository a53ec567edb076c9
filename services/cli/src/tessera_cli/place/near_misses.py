"""The cards of a node as a pod that has to wait met them: what `--why` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod
from tessera_core.fleet.cores import percent
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.planner import Planner
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import PlanOutcome

NODES_SHOWN: Final = 12


class CardNearMiss(Struct, frozen=True, kw_only=True):
    """One card, with what of it is held, and why the pod could not have it."""

    index: int
    model: str
    used_mib: int
    total_mib: int
    used_percent: float
    total_percent: float
    sharers: int
    slots: int
    exclusive: bool
    reason: Reason | None
    """None = it would do."""


class NodeNearMiss(Struct, frozen=True, kw_only=True):
    """What one or several nodes said, and the cards of the first of them."""

    nodes: tuple[str, ...]
    messages: tuple[str, ...]
    cards: tuple[CardNearMiss, ...] = ()


def near_misses(planner: Planner, outcome: PlanOutcome) -> tuple[NodeNearMiss, ...]:
    """The nodes of a waiting pod, those that said the same thing together. To be asked before
    the next pod is planned: later pods change what is free."""
    said: dict[str, list[str]] = {}
    for why in outcome.reasons:
        said.setdefault(why.node, []).append(f"{why.message}")
    alike: dict[tuple[str, ...], list[str]] = {}
    for node, messages in said.items():
        alike.setdefault(tuple(messages), []).append(node)
    admission = planner.admitted(outcome.pod)
    groups = []
    for number, (texts, nodes) in enumerate(alike.items()):
        shown = number < NODES_SHOWN and isinstance(admission, AdmittedPod)
        cards = _cards(planner, admission, nodes[0]) if shown else ()
        groups.append(NodeNearMiss(nodes=tuple(nodes), messages=texts, cards=cards))
    return tuple(groups)


def _cards(planner: Planner, admission: object, node: str) -> tuple[CardNearMiss, ...]:
    fleet = planner.ledger.fleet
    row = fleet.rows.get(node)
    if row is None or not isinstance(admission, AdmittedPod):
        return ()
    allowance = planner.ledger.allowance(admission.request.namespace)
    unfit = Placer(fleet).fit(row, units(admission.request), allowance)
    if not isinstance(unfit, NoFit) or unfit.view is None:
        return ()
    codes: Sequence[int] = [] if unfit.codes is None else unfit.codes.tolist()
    state = unfit.view.state
    return tuple(
        CardNearMiss(
            index=card.index,
            model=card.model,
            used_mib=int(state.memory_used[i]) >> 20,
            total_mib=card.memory_mib,
            used_percent=percent(int(state.cores_used[i])),
            total_percent=percent(int(state.cores_total[i])),
            sharers=int(state.sharers[i]),
            slots=int(state.slots[i]),
            exclusive=bool(state.exclusive[i]),
            reason=Reason(codes[i]) if codes and codes[i] else None,
        )
        for i, card in enumerate(unfit.view.facts)
    )


def same_refusal(one: PlanOutcome, other: PlanOutcome) -> bool:
    """True when two pods that ask in the same words are not placed for the very same reasons."""
    return (
        one.verdict is other.verdict
        and one.dialects == other.dialects
        and one.message == other.message
        and one.reasons == other.reasons
    )
