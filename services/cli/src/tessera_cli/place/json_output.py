"""The answer as JSON: every key always there, so that a script needs no defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from tessera_cli.place.place import Plan
from tessera_cli.place.preemption.json_output import preempt
from tessera_cli.place.preemption.preemptions import PreemptionAnswer
from tessera_core.explain.card_holders import ListedCard, ListedHolder, ListedNode
from tessera_core.gang_planner.answers import GangOutcome
from tessera_core.gangs.queue_turns import QueueTurn
from tessera_core.shadows.shadow import Shadow
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.injections import Injection
from tessera_schema.verdicts import PlanOutcome

_encode: Final = msgspec.json.Encoder().encode


def chunks(plan: Plan) -> Iterator[bytes]:
    """The document, pod by pod, then gangs, queues and reserved cards where there are any, then
    node by node where cards are listed. Pods and gangs have `preempt` where that was asked for."""
    yield b"{"
    yield from _list(b"pods", _pods(plan))
    if plan.gangs:
        yield b","
        yield from _list(b"gangs", _gangs(plan))
    if plan.turns:
        yield b","
        yield from _list(b"queues", map(queue, plan.turns))
    if plan.shadows:
        yield b',"reserved":' + _encode([reserved(each) for each in plan.shadows])
    if plan.listed is not None:
        yield b","
        yield from _list(b"nodes", map(node, plan.listed.nodes))
        yield b',"warnings":' + _encode((*plan.gaps, *plan.listed.warnings))
    yield b"}\n"


def _pods(plan: Plan) -> Iterator[dict[str, Any]]:
    """With `why` each has `advice`, too."""
    for at, outcome in enumerate(plan.outcomes):
        more: dict[str, Any] = {} if plan.closer is None else {"advice": plan.advice.get(at, "")}
        if plan.preemptions is not None:
            more |= {"preempt": _preempt(plan, plan.preemptions.get(at))}
        yield pod(outcome) | more


def _gangs(plan: Plan) -> Iterator[dict[str, Any]]:
    for outcome in plan.gangs:
        more = {}
        if plan.preemptions is not None:
            more = {"preempt": _preempt(plan, plan.gang_preemptions.get(outcome.gang.id))}
        yield gang(outcome) | more


def _preempt(plan: Plan, found: PreemptionAnswer | None) -> dict[str, Any] | None:
    """None for what does not wait for room; without victims `message` says why."""
    return None if found is None else preempt(found, plan.planner.ledger)


def _list(name: bytes, parts: Iterable[Any]) -> Iterator[bytes]:
    yield b'"' + name + b'":['
    before, last = b"\n", b""
    for part in parts:
        yield before + _encode(part)
        before, last = b",\n", b"\n"
    yield last + b"]"


def pod(outcome: PlanOutcome) -> dict[str, Any]:
    """One pod of the document."""
    meta = outcome.pod.metadata
    return {
        "namespace": meta.namespace or "default",
        "name": meta.name,
        "verdict": outcome.verdict.value,
        "dialect": ",".join(outcome.dialects),
        "node": outcome.node,
        "message": outcome.message,
        "mutated": {
            name: {"limits": after.limits, "requests": after.requests, "env": after.env}
            for name, after in outcome.containers.items()
        },
        "cards": [_card(share) for share in outcome.grant.shares] if outcome.grant else [],
        "annotations": outcome.annotations,
        "inject": {name: _given(given) for name, given in outcome.injections.items()},
        "reasons": [
            {"node": why.node, "code": why.reason.wire, "message": why.message}
            for why in outcome.reasons
        ],
        "warnings": outcome.warnings,
    }


def gang(outcome: GangOutcome) -> dict[str, Any]:
    """One gang of the document."""
    gang = outcome.gang
    return {
        "id": gang.id,
        "verdict": outcome.verdict.value,
        "min": gang.min,
        "members": outcome.members,
        "placed": outcome.placed,
        "queue": gang.queue,
        "bundle": gang.bundle,
        "message": outcome.message,
        "remedy": outcome.remedy,
        "warnings": gang.warnings,
    }


def queue(turn: QueueTurn) -> dict[str, Any]:
    """One queue of the document; they come in the order in which they would be served."""
    return {
        "kind": turn.queue.origin.kind,
        "name": turn.queue.name,
        "share": round(turn.share.beyond, 6),
        "by": "" if turn.by is None else str(turn.by),
        "used": {str(dim): number(turn.used.get(dim, 0)) for dim in turn.entitled},
        "entitled": {str(dim): number(amount) for dim, amount in turn.entitled.items()},
    }


def reserved(shadow: Shadow) -> dict[str, Any]:
    """The cards that one that waits for room will get."""
    return {
        "for": shadow.of,
        "expected_start": shadow.until or None,
        "cards": {node: sorted(ids) for node, ids in sorted(shadow.cards.items())},
    }


def node(listed: ListedNode) -> dict[str, Any]:
    """One node of the document."""
    return {
        "name": listed.name,
        "given": listed.given,
        "closed": listed.closed,
        "cards": [_listed(card) for card in listed.cards],
        "lost": [{"id": lost.card, "holders": _holders(lost.holders)} for lost in listed.lost],
    }


def number(amount: float) -> int | float:
    """Whole numbers without a point."""
    return int(amount) if amount == int(amount) else amount


def _card(share: Share) -> dict[str, Any]:
    return {
        "container": share.container,
        "id": share.card,
        "index": share.index,
        "memory_mib": share.memory_mib,
        "cores_percent": number(share.cores_percent),
        **({"best_effort": True} if share.best_effort else {}),
    }


def _listed(listed: ListedCard) -> dict[str, Any]:
    card, held = listed.card, listed.held
    return {
        "id": card.id,
        "index": card.index,
        "vendor": card.vendor,
        "model": card.model,
        "mode": card.mode,
        "healthy": card.healthy,
        "cordoned": card.cordoned,
        "hidden": card.hidden,
        "memory_mib": card.memory_mib,
        "physical_mib": (card.physical_bytes or card.memory_bytes) // MIB,
        "memory_held_mib": held.memory_bytes // MIB,
        "cores_percent": number(card.cores_percent),
        "cores_held_percent": number(held.cores_percent),
        "slots": card.slots,
        "slots_held": held.slots,
        "holders": _holders(listed.holders),
    }


def _holders(holders: Iterable[ListedHolder]) -> list[dict[str, Any]]:
    return [
        {
            "namespace": holder.namespace,
            "name": holder.name,
            "dialect": ",".join(holder.dialects),
            "memory_mib": holder.memory_bytes // MIB,
            "cores_percent": number(holder.cores_percent),
            "slots": holder.slots,
            "exclusive": holder.exclusive,
            "by": "annotations" if holder.written else "requests",
        }
        for holder in holders
    ]


def _given(injection: Injection) -> dict[str, Any]:
    return {
        "env": injection.env,
        "mounts": [
            {"destination": m.destination, "source": m.source, "read_only": m.read_only}
            for m in injection.mounts
        ],
        "devices": injection.devices,
    }
