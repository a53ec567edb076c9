"""What is answered about a pod: the explanation, with advice, with its cards where the
query says so, and with the names of those pods alone that the caller may read."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.explain.reasons import NO_CARDS
from tessera_runtime.kube import timestamps
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.visibility.cards import with_cards
from tessera_scheduler.visibility.names import DraftAnswer, MayName
from tessera_schema.cards import MIB
from tessera_schema.endpoints import visibility
from tessera_schema.explanation import UNASKED, Explanation
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import Verdict

NODES_MOST: Final = 200
"""Nodes of one answer; those that have cards come first."""
_WITHOUT_CARDS: Final = (Reason.NODE_UNREGISTERED, Reason.NODE_HAS_NO_CARDS)
_WAITS: Final = (Verdict.WAITING, UNASKED)


async def whole(
    explainer: Explainer,
    pod: Pod,
    may_name: MayName,
    *,
    scheduler: str = "",
    cards: bool = False,
) -> visibility.PodExplanation:
    """Everything about one pod. `scheduler` is what kube-scheduler wrote on it."""
    explanation = await explainer.explain(pod)
    waits = explanation.decision.verdict in _WAITS
    wanted = _wanted(explainer, pod)
    found = _object(pod, explanation, scheduler if waits else "")
    advice = explainer.advice(pod, wanted) if waits and wanted is not None else None
    if waits and wanted is not None and not explanation.decision.feasible_nodes:
        found = replace(found, preemption=await explainer.victims(pod, wanted))
    if cards and wanted is not None:
        found = await with_cards(explainer.ledger, found, wanted, NODES_MOST)
    return await DraftAnswer(found=found, advice=advice).redacted(may_name)


async def brief(
    explainer: Explainer, pod: Pod, may_name: MayName
) -> visibility.PodExplanation | None:
    """One line about a pod that waits, without its nodes; None for one that asks for no cards."""
    admission = explainer.admitted(pod)
    if admission is None:
        return None
    decision = explainer.decision(pod)
    about = visibility.PodExplanation(
        metadata=_meta(pod), verdict=UNASKED if decision is None else str(decision.verdict),
        attempts=0 if decision is None else decision.attempts,
        decided_at="" if decision is None else timestamps.format_time(decision.at),
    )  # fmt: skip
    if not isinstance(admission, AdmittedPod):
        return replace(about, verdict=Verdict.REJECTED, message=admission.message)
    if not admission.request.containers:
        return None
    if explainer.ledger.entry(pod.metadata.uid) is not None:
        return replace(about, verdict=Verdict.PLACED, message="its cards are kept for it")
    over = "" if decision is None else decision.over
    draft = DraftAnswer(found=about, advice=explainer.advice(pod, admission.request))
    answer = await draft.redacted(may_name)
    message = explainer.undecided() if decision is None else over
    return replace(
        answer, message=message, advice="" if message == answer.advice else answer.advice
    )


def _wanted(explainer: Explainer, pod: Pod) -> PodRequest | None:
    admission = explainer.admitted(pod)
    if isinstance(admission, AdmittedPod) and admission.request.containers:
        return admission.request
    return None


def _meta(pod: Pod) -> visibility.Meta:
    return visibility.Meta(
        name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid,
        creation_timestamp=pod.metadata.creation_timestamp,
    )  # fmt: skip


def _object(pod: Pod, found: Explanation, scheduler: str) -> visibility.PodExplanation:
    decision = found.decision
    of_nodes: dict[str, list[visibility.ReasonText]] = {}
    for each in decision.reasons:
        text = visibility.ReasonText(reason=Reason(each.reason).wire, message=each.message)
        of_nodes.setdefault(each.node, []).append(text)
    of_pod = of_nodes.pop("", [])
    bare = {each.node for each in decision.reasons if each.reason in NO_CARDS}
    names = sorted(of_nodes, key=lambda name: (name in bare, name))
    return visibility.PodExplanation(
        metadata=_meta(pod), verdict=str(decision.verdict), message=decision.message,
        node=decision.node, attempts=decision.attempts, scheduler=scheduler,
        decided_at=timestamps.format_time(decision.at) if decision.attempts else "",
        dialects=found.dialects, asks=_requested(found), limits=_limits(found), held=_shares(found),
        reasons=tuple(of_pod),
        nodes=tuple(
            visibility.NodeState(name=name, reasons=tuple(of_nodes[name]))
            for name in names[:NODES_MOST]
        ),
        more_nodes=max(len(names) - NODES_MOST, 0),
    )  # fmt: skip


def _requested(found: Explanation) -> tuple[visibility.RequestedCards, ...]:
    return tuple(
        visibility.RequestedCards(
            container=a.container, vendor=a.vendor, dialect=a.dialect, count=a.count,
            memory_mib=a.memory_bytes // MIB, memory_percent=a.memory_percent,
            cores_percent=a.cores_percent, exclusive=a.exclusive,
        )
        for a in found.asks
    )  # fmt: skip


def _limits(found: Explanation) -> tuple[visibility.LimitState, ...]:
    return tuple(
        visibility.LimitState(
            source=limit.source, vendor=limit.vendor,
            memory_mib=None if limit.memory_bytes is None else limit.memory_bytes // MIB,
            memory_mib_used=limit.memory_bytes_used // MIB,
            cores_percent=limit.cores_percent, cores_percent_used=limit.cores_percent_used,
            cards=limit.cards, cards_used=limit.cards_used,
        )
        for limit in found.quota
    )  # fmt: skip


def _shares(found: Explanation) -> visibility.GrantView | None:
    held = found.held
    if held is None:
        return None
    return visibility.GrantView(
        node=held.node, phase=held.phase, since=timestamps.format_time(held.since),
        shares=tuple(
            visibility.GrantedShareView(
                container=s.container, card=s.card, index=s.index, memory_mib=s.memory_mib,
                cores_percent=s.cores_percent, best_effort=s.best_effort, lent=s.lent,
            )
            for s in held.shares
        ),
    )  # fmt: skip
