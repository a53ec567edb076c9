"""Why a pod does not fit, in numbers, node by node: rendered when somebody asks.

A card's reason is the first of the predicates that it fails; the message adds how much was
asked and what the best of those cards had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.closed_cards import MODES_LEFT_ALONE
from tessera_core.fleet.columns import NodeView, at
from tessera_core.fleet.cores import percent
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken, slots_taken
from tessera_core.fleet.memory_sizes import size_on, sizes_of
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement.card_choice import scopes
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.predicates import wants_left_alone_mode
from tessera_core.placement.units import PlacementUnit
from tessera_core.quota.allowance import Allowance
from tessera_schema.cards import MIB, Card
from tessera_schema.reasons import Reason
from tessera_schema.requests import Choice
from tessera_schema.verdicts import UnmetReason

NO_CARDS: Final = (Reason.NODE_HAS_NO_CARDS,)
"""Of nodes that the pod is not about."""


def explain(
    fleet: Fleet,
    wanted: Sequence[PlacementUnit],
    allowance: Allowance,
    refused: Mapping[str, tuple[Reason, str]],
) -> tuple[UnmetReason, ...]:
    """One Why per node and reason, nodes by name. `refused` are nodes that are out for other
    reasons than cards."""
    return tuple(chain.from_iterable(node_by_node(fleet, wanted, allowance, refused)))


def node_by_node(
    fleet: Fleet,
    wanted: Sequence[PlacementUnit],
    allowance: Allowance,
    refused: Mapping[str, tuple[Reason, str]],
) -> Iterator[list[UnmetReason]]:
    """The same, one node at a time, for a caller that has other things to do in between. The fleet
    must not change meanwhile."""
    placer = Placer(fleet)
    for node in sorted(fleet.rows):
        if node in refused:
            reason, message = refused[node]
            yield [UnmetReason(node=node, reason=reason, message=message)]
            continue
        unfit = placer.fit(fleet.rows[node], wanted, allowance)
        yield reasons_of_node(node, unfit) if isinstance(unfit, NoFit) else []


def reasons_of_node(node: str, unfit: NoFit) -> list[UnmetReason]:
    """The reasons of one node, the most frequent first; among equals the one that came nearest."""
    request = unfit.unit.lead
    who = ", ".join(p.container.container for p in unfit.unit.parts)
    few = unfit.reason is Reason.NODE_INSUFFICIENT_DEVICE
    if few or unfit.codes is None or unfit.view is None or unfit.need is None:
        return [UnmetReason(node=node, reason=unfit.reason, message=_node_message(unfit, who))]
    total = len(unfit.view.facts)
    counts = np.bincount(unfit.codes, minlength=256)
    whys = []
    if counts[0] and counts[0] < request.count:
        reason = Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
        text = f"{counts[0]} of the {request.count} cards that {who} asks for would do"
        whys.append(
            UnmetReason(node=node, reason=reason, message=_counted(counts[0], total, reason, text))
        )
    given = [c for c in np.flatnonzero(counts).tolist() if c]
    for code in sorted(given, key=lambda c: (-counts[c], -c)):
        reason = Reason(code)
        cards = np.flatnonzero(unfit.codes == code).tolist()
        refused = _Refused(who, unfit.unit, unfit.view, unfit.need, cards, unfit.over)
        text = _DETAILS[reason](refused)
        whys.append(
            UnmetReason(
                node=node, reason=reason, message=_counted(counts[code], total, reason, text)
            )
        )
    return whys


def summary(whys: Sequence[UnmetReason], nodes: int) -> str:
    """One line for all nodes, as kube-scheduler puts it: `0/4 nodes have room: 3 ..., 1 ...`. Nodes
    on which nobody expects cards come last."""
    if not nodes:
        return "0/0 nodes have room: there are no nodes"
    first: dict[str, Reason] = {}
    for why in whys:
        first.setdefault(why.node, why.reason)
    counts: dict[Reason, int] = {}
    for reason in first.values():
        counts[reason] = counts.get(reason, 0) + 1
    parts = sorted(counts.items(), key=lambda kv: (kv[0] in NO_CARDS, -kv[1], kv[0]))
    return f"0/{nodes} nodes have room: " + ", ".join(f"{n} {r.wire}" for r, n in parts)


def _counted(count: int, total: int, reason: Reason, text: str) -> str:
    return f"{count}/{total} {reason.wire}: {text}"


def _node_message(unfit: NoFit, who: str) -> str:
    request = unfit.unit.lead
    match unfit.reason:
        case Reason.NODE_UNREGISTERED:
            return (
                f"node unregistered: it publishes no {request.vendor} cards, though its labels, "
                "resources or annotations say that it has some: see whether the agent runs there"
            )
        case Reason.NODE_HAS_NO_CARDS:
            return (
                f"node unregistered: it publishes no {request.vendor} cards, and nothing says that "
                "it has any"
            )
        case Reason.NODE_INSUFFICIENT_DEVICE:
            have = len(unfit.view.facts) if unfit.view else 0
            return f"{who} asks for {request.count} {request.vendor} cards, the node has {have}"
        case Reason.NODE_BLOCKED:
            return (
                "what a pod on the node holds cannot be read: it takes no others until that pod "
                "ends, or a release is here that can read it"
            )
        case _:
            return unfit.reason.wire


class _Refused(Struct, frozen=True):
    """The cards of one node that one reason refuses, for rendering."""

    who: str
    unit: PlacementUnit
    view: NodeView
    need: CardNeeds
    cards: list[int]
    over: Mapping[int, str]

    def each(self, value: Callable[[int], object]) -> str:
        return _listed(dict.fromkeys(str(value(i)) for i in self.cards))

    def ids(self) -> str:
        return self.each(lambda i: self.view.facts[i].id)


def _memory(r: _Refused) -> str:
    s = r.view.state
    left = (s.memory_total - memory_taken(s, best_effort=r.need.best_effort)).tolist()
    best = max(r.cards, key=left.__getitem__)
    return (
        f"{r.who} asks {_mib(at(r.need.memory, best))} of a card, the freest of these has "
        f"{_mib(max(left[best], 0))} of {_mib(s.memory_total[best])}{_lent(r, best)}"
        f"{_beyond(r, best)}"
    )


def _lent(r: _Refused, best: int) -> str:
    """What to know of a card of which memory is lent to best-effort pods."""
    s = r.view.state
    if not r.need.best_effort or not (s.lends[best] or s.lent_memory[best]):
        return ""
    return (
        f": {_mib(s.memory_used[best])} are granted and {_mib(s.lent_memory[best])} are lent, "
        f"of which the pods there leave {_mib(s.unused[best])}"
    )


def _beyond(r: _Refused, best: int) -> str:
    """What to know of a card of which more can be granted than it has."""
    physical, total = r.view.state.memory_physical[best], r.view.state.memory_total[best]
    if physical >= total:
        return ""
    if r.need.granted is not None:
        return (
            f"; the card has {_mib(physical)}, so the {_mib(at(r.need.granted, best))} that are "
            "guaranteed to lie on it count so much more"
        )
    return f", of which {_mib(physical)} lie on the card"


def _cores(r: _Refused) -> str:
    s = r.view.state
    best = max(r.cards, key=lambda i: s.cores_total[i] - s.cores_used[i])
    free = max(int(s.cores_total[best] - s.cores_used[best]), 0)
    return (
        f"{r.who} asks {percent(at(r.need.cores, best)):g} % of a card's cores, the freest of "
        f"these has {percent(free):g} of {percent(s.cores_total[best]):g} %"
    )


def _slots(r: _Refused) -> str:
    slots = r.view.state.slots
    taken = slots_taken(r.view.state, best_effort=r.need.best_effort)
    return f"slots taken: {r.each(lambda i: f'{taken[i]} of {slots[i]}')}"


def _exclusive(r: _Refused) -> str:
    s = r.view.state
    if any(s.exclusive[i] for i in r.cards):
        return "a pod has the card to itself"
    return f"{r.who} wants idle cards, these have sharers: {r.each(lambda i: s.sharers[i])}"


def _type(r: _Refused) -> str:
    if all(at(r.need.unfit, i) for i in r.cards):
        return _no_size(r)
    request, words = r.unit.lead, []
    if request.models:
        words.append("models " + _listed(request.models))
    if request.models_denied:
        words.append("no " + _listed(request.models_denied))
    if request.modes:
        words.append("modes " + _listed(request.modes))
    have = r.each(lambda i: _model_and_mode(r.view.facts[i], with_mode=bool(request.modes)))
    return f"{r.who} allows {' and '.join(words)}, these are {have}"


def _no_size(r: _Refused) -> str:
    """No model of these cards has a size that is large enough."""
    models = list(dict.fromkeys(r.view.facts[i].model for i in r.cards))
    short = (
        (part.request, model)
        for model in models
        for part in r.unit.parts
        if size_on(part.request, model) is None
    )
    request, model = next(short)
    largest = max(sizes_of(request, model) or (0,))
    return (
        f"{r.who} asks {_mib(request.memory_bytes)} of a card, the largest share that a card of "
        f"model {model} can be cut into has {_mib(largest)}; these are {_listed(models)}"
    )


def _model_and_mode(card: Card, *, with_mode: bool) -> str:
    model = card.model or "of unknown model"
    return f"{model} in mode {card.mode}" if with_mode and card.mode else model


def _mode(r: _Refused) -> str:
    if wants_left_alone_mode(r.unit.lead):
        mode = MODES_LEFT_ALONE[0].upper()
        return (
            f"{r.who} asks for a {mode} card; no card of this cluster is in {mode} mode that "
            "Tessera gives out"
        )
    return f"in mode {r.each(lambda i: r.view.facts[i].mode)}, which is left alone"


_DETAILS: Final[Mapping[Reason, Callable[[_Refused], str]]] = {
    Reason.AGENT_SILENT: lambda r: (
        f"the agent of {r.view.node} has not renewed its Lease: it is down, starts again and again,"
        " or cannot give containers their cards"
    ),
    Reason.CARD_NOT_HEALTH: lambda r: f"unhealthy: {r.ids()}",
    Reason.CARD_HIDDEN: lambda r: f"hidden by settings of its node: {r.ids()}",
    Reason.CARD_CORDONED: lambda r: f"cordoned by an operator: {r.ids()}",
    Reason.CARD_RESERVED: lambda r: f"reserved for who waits before this pod: {r.ids()}",
    Reason.MODE_NOT_FIT: _mode,
    Reason.CARD_TYPE_MISMATCH: _type,
    Reason.CARD_UUID_MISMATCH: lambda r: f"{r.who} asks for other cards than {r.ids()}",
    Reason.CARD_TIME_SLICING_EXHAUSTED: _slots,
    Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT: _exclusive,
    Reason.RESOURCE_QUOTA_NOT_FIT: lambda r: r.each(lambda i: r.over[i]),
    Reason.CARD_INSUFFICIENT_MEMORY: _memory,
    Reason.CARD_INSUFFICIENT_CORE: _cores,
    Reason.CARD_COMPUTE_UNITS_EXHAUSTED: lambda _r: "all cores are promised to others",
    Reason.NUMA_NOT_FIT: lambda r: (
        f"no NUMA node has {r.unit.lead.count} of the cards that would do"
    ),
    Reason.TOPOLOGY_NOT_FIT: lambda r: (
        scopes.why_not(r.view, r.cards, r.unit.lead)
        if r.unit.lead.policy.choice is Choice.SCOPES
        else f"no {r.unit.lead.count} of the cards that would do are close enough"
    ),
}
"""What the numbers are, reason by reason."""


def _listed(words: Iterable[str], shown: int = 4) -> str:
    all_of = list(words)
    more = f" and {len(all_of) - shown} more" if len(all_of) > shown else ""
    return ", ".join(all_of[:shown]) + more


def _mib(amount: int) -> str:
    return f"{int(amount) // MIB} MiB" if amount % MIB == 0 else f"{int(amount) / MIB:.1f} MiB"
