"""What the page gets of a cluster, for one scope of rights. Pure: rows in, JSON out.

Figures that change with each report are apart from the rest, as plain lists, so that 10,000 pods
cost some 200 KB every few seconds and not 2 MB. Amounts are MiB, and percent of a card.

Of a pod that the caller may not see there is its size, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_console.objects import PlanView, QuotaView
from tessera_console.rights import CallerScope
from tessera_core.occupancy.occupancy import PodAnswer
from tessera_core.occupancy.rows import CardRow, CardTotals, NodeRow, ShareRow, WaitingRow
from tessera_schema.cards import MIB
from tessera_schema.plans import PlanStep, PodOfPlan

Json = dict[str, Any]
_TOTALS: Final = tuple(CardTotals.__struct_fields__)


def node(row: NodeRow, scope: CallerScope) -> Json:
    """A node with its cards and their shares."""
    return {
        "name": row.name,
        "closed": row.closed,
        # Its sentences name pods.
        "problems": row.problems if scope.everything else (),
        "cards": [_card(card, scope) for card in row.cards],
    }


def node_use(row: NodeRow, scope: CallerScope) -> list[Any]:
    """For each card of `node`: memory and cores in use, and for each of its shares a list of
    memory, cores, limit, throttled, borrowed and lent cores, enforced; null = not measured, 0 = the
    share of a pod that the caller may not see."""
    return [
        [
            _mib(card.used_bytes), _percent(card.used_percent),
            [_share_use(share) if scope.sees(share.namespace) else 0 for share in card.shares],
        ]
        for card in row.cards
    ]  # fmt: skip


def waiting(row: WaitingRow, answer: PodAnswer | None) -> Json:
    """A pod that waits; `answer` is what the scheduler says to this caller."""
    return {
        "namespace": row.namespace, "name": row.name, "created": row.created,
        "dialects": row.dialects,
        "parts": [
            {
                "dialect": part.dialect, "cards": part.cards, "mib": _mib(part.memory_bytes),
                "memory_percent": part.memory_percent, "cores": part.cores_percent,
                "whole": part.exclusive,
            }
            for part in row.parts
        ],
        "reason": (answer.reason if answer is not None else "") or row.reason,
        "remedy": answer.remedy if answer is not None else row.remedy,
    }  # fmt: skip


def quota(item: QuotaView, scope: CallerScope) -> Json:
    """An AcceleratorQuota; its idle pods are those that the caller may see."""
    status = item.status
    idle = tuple(one for one in status.idle if scope.sees(one.pod.partition("/")[0]))
    return {
        "namespace": item.metadata.namespace, "name": item.metadata.name, "spec": item.spec,
        "status": replace(status, idle=idle),
    }  # fmt: skip


def plan(item: PlanView, scope: CallerScope) -> Json:
    """A RebalancePlan; pods that the caller may not see have no names, and sentences neither."""
    spec = item.spec
    pods = [step.pod for step in spec.steps] + ([spec.for_pod] if spec.for_pod else [])
    namespaces = [pod.namespace for pod in pods]
    if spec.for_gang:
        namespaces.append(spec.for_gang.split("/")[1])
    whole = all(map(scope.sees, namespaces))
    if not whole:
        spec = replace(
            spec, steps=tuple(_step(step, scope) for step in spec.steps), reason="",
            for_gang="", for_pod=None if spec.for_pod is None else _pod(spec.for_pod, scope),
        )  # fmt: skip
    status = item.status if whole else replace(item.status, message="")
    return {
        "name": item.metadata.name, "version": item.metadata.resource_version,
        "created": item.metadata.creation_timestamp, "spec": spec, "status": status,
    }  # fmt: skip


def totals(all_cards: CardTotals) -> Json:
    """All cards added up."""
    return {name: getattr(all_cards, name) for name in _TOTALS}


def share_in_full(row: ShareRow, scope: CallerScope) -> Json:
    """A pod's part of a card, and the pods with which it shares cores, those that may be seen."""
    partners = [one for one in row.partners if scope.sees(one.partition("/")[0])]
    return {
        **_share(row), "node": row.node, "card": row.index, "partners": partners,
        "partners_hidden": len(row.partners) - len(partners), "use": _share_use(row),
    }  # fmt: skip


def holders(rows: Iterable[NodeRow], namespace: str, name: str) -> list[tuple[CardRow, ShareRow]]:
    """The cards of a pod, with its shares."""
    return [
        (card, share)
        for row in rows
        for card in row.cards
        for share in card.shares
        if share.name == name and share.namespace == namespace
    ]


def encoded(document: object) -> bytes:
    """As JSON."""
    return _encode(document)


_encode: Final = msgspec.json.Encoder().encode


def _card(row: CardRow, scope: CallerScope) -> Json:
    facts = row.card
    return {
        "index": facts.index, "id": facts.id, "vendor": facts.vendor, "model": facts.model,
        "mib": _mib(facts.memory_bytes), "cores": facts.cores_percent,
        "healthy": facts.healthy, "published": row.published, "note": row.note,
        "granted_mib": _mib(row.memory_bytes), "granted_cores": row.cores_percent,
        "shares": [
            _share(share) if scope.sees(share.namespace) else _foreign(share)
            for share in row.shares
        ],
    }  # fmt: skip


def _share(row: ShareRow) -> Json:
    return {
        "namespace": row.namespace, "pod": row.name, "uid": row.uid, "dialects": row.dialects,
        "mib": _mib(row.memory_bytes), "cores": row.cores_percent, "whole": row.exclusive,
        "created": row.created, "phase": row.phase,
    }  # fmt: skip


def _foreign(row: ShareRow) -> Json:
    return {"mib": _mib(row.memory_bytes), "cores": row.cores_percent, "whole": row.exclusive}


def _share_use(row: ShareRow) -> list[float | None] | None:
    use = row.measured
    if use is None:
        return None
    return [
        _mib(use.memory_bytes), _percent(use.cores_percent), _percent(use.limit_percent),
        _percent(use.throttled_percent), _percent(row.borrows_percent), _percent(row.lends_percent),
        int(use.enforced),
    ]  # fmt: skip


def _step(step: PlanStep, scope: CallerScope) -> PlanStep:
    return replace(step, pod=_pod(step.pod, scope), container="")


def _pod(pod: PodOfPlan, scope: CallerScope) -> PodOfPlan:
    if scope.sees(pod.namespace):
        return pod
    return PodOfPlan(namespace="", name="", uid="", node=pod.node)


def _mib(amount: int | None) -> int | None:
    return None if amount is None else round(amount / MIB)


def _percent(amount: float | None) -> int | None:
    return None if amount is None else round(amount)
