"""Why a pod is where it is, or waits: put together from the decision, the ledger and the pod.

Five thousand nodes take half a second of computing, so it is done in small pieces between which
filter and bind go on, on a copy of the ledger's fleet that does not change meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.explain.advice import Advice
from tessera_core.explain.decision_log import Decision, DecisionLog
from tessera_core.explain.reasons import node_by_node, summary
from tessera_core.explain.remedies import advise, memory_unit
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.units import units
from tessera_core.quota.allowance import Allowance, minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_schema.decisions import DecisionRecord, ReasonRecord
from tessera_schema.explanation import (
    IGNORED,
    UNASKED,
    Explanation,
    LedgerShares,
    LimitUse,
    RequestedShare,
)
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import UnmetReason, Verdict

PIECE: Final = 16
"""Nodes that are explained without a pause: one or two milliseconds."""


class PreemptionAdvice(Protocol):
    """Says who would have to go."""

    async def advice(self, pod: Pod, request: PodRequest) -> str:
        """Who would have to go for the pod, or for its gang, in a sentence."""
        ...


class Explainer:
    """Explains pods from what the filter decided, the ledger and the pod itself."""

    def __init__(
        self,
        *,
        registry: DialectRegistry,
        ledger: Ledger,
        decisions: DecisionLog,
        clock: Clock,
        other_leader: Callable[[], str] = str,
        preemption: PreemptionAdvice | None = None,
        why_gated: Callable[[Pod], str] = lambda _: "",
    ) -> None:
        """`other_leader` names the replica that leads, and alone has the decisions, where that is
        another one; it is empty where this one leads, or none does. `preemption` says who would
        have to go for a pod; None = nobody is. `why_gated` says why the scheduling gate of a pod is
        closed, empty for a pod without one."""
        self.ledger = ledger
        self.clock = clock
        self._registry = registry
        self._decisions = decisions
        self._other_leader = other_leader
        self._preemption = preemption
        self._why_gated = why_gated

    def admitted(self, pod: Pod) -> AdmittedPod | Rejected | None:
        """The pod as the filter admits it, with what its namespace may have."""
        allowed = self.ledger.allowed_in(pod.metadata.namespace or "default")
        return admit(self._registry, pod, runs=bool(pod.spec.node_name), allowed=allowed)

    def decision(self, pod: Pod) -> Decision | None:
        """What the filter decided about the pod last; None where this replica does not know."""
        return self._decisions.get(pod.metadata.uid)

    def undecided(self) -> str:
        """What is said of a pod of which this replica has no decision."""
        leader = self._other_leader()
        if leader:
            return f"as the books are now ({leader} decides, and another replica answered)"
        return "kube-scheduler has not asked about it since the scheduler started"

    def advice(self, pod: Pod, request: PodRequest) -> Advice:
        """What would let the pod be placed."""
        ledger, decision = self.ledger, self.decision(pod)
        rows = None if decision is None else self._decisions.offered(decision, ledger.fleet)
        return advise(
            ledger.fleet,
            ledger.on,
            request,
            ledger.allowance(request.namespace),
            rows=rows,
            unit=memory_unit(self._registry.dialects, pod),
        )

    async def victims(self, pod: Pod, request: PodRequest) -> str:
        """Who would have to go for a pod that fits nowhere, in a sentence; empty where nobody
        says."""
        return "" if self._preemption is None else await self._preemption.advice(pod, request)

    async def explain(self, pod: Pod) -> Explanation:
        """Everything about one pod."""
        admission = self.admitted(pod)
        entry = self.ledger.entry(pod.metadata.uid)
        allowance = self.ledger.allowance(pod.metadata.namespace or "default")
        request = admission.request if isinstance(admission, AdmittedPod) else None
        return Explanation(
            namespace=pod.metadata.namespace, name=pod.metadata.name,
            decision=await self._decided(pod, admission, entry),
            dialects=admission.dialects if isinstance(admission, AdmittedPod) else (),
            asks=_requested(request) if request is not None else (),
            quota=_limits(allowance),
            held=_shares(entry) if entry is not None else None,
        )  # fmt: skip

    async def _decided(
        self, pod: Pod, admission: AdmittedPod | Rejected | None, entry: LedgerEntry | None
    ) -> DecisionRecord:
        decision = self.decision(pod)
        if entry is not None and entry.phase is not AllocationPhase.RESERVED:
            return _placed(pod, entry, decision)
        if decision is not None:
            today = self.ledger.fleet.snapshot()
            whys = await _in_pieces(self._decisions.whys(decision, today))
            return self._decisions.record_with(decision, whys, today)
        plain = DecisionRecord(
            uid=pod.metadata.uid, verdict=UNASKED, at=self.clock.time(), attempts=0
        )
        if isinstance(admission, Rejected):
            why = ReasonRecord(reason=admission.reason, message=admission.message)
            return replace(
                plain, verdict=Verdict.REJECTED, message=admission.message, reasons=(why,)
            )
        if admission is None or not admission.request.containers:
            return replace(plain, verdict=IGNORED, message="it asks for no cards")
        gated = self._why_gated(pod)
        if gated:
            return replace(plain, message=gated)
        return await self._as_of_now(plain, admission.request)

    async def _as_of_now(self, plain: DecisionRecord, request: PodRequest) -> DecisionRecord:
        """What the filter would answer now: after a restart kube-scheduler has not asked yet."""
        undecided = self.undecided()
        allowance = self.ledger.allowance(request.namespace)
        over = allowance.exceeded(minimum_usage(request))
        if over:
            why = ReasonRecord(reason=Reason.RESOURCE_QUOTA_NOT_FIT, message=over)
            return replace(plain, message=f"{undecided}; {over}", reasons=(why,))
        fleet: Fleet = self.ledger.fleet.snapshot()
        whys = await _in_pieces(node_by_node(fleet, units(request), allowance, {}))
        fits = len(fleet.rows) - len({why.node for why in whys})
        outcome = f"{fits} nodes have room now" if fits else summary(whys, len(fleet.rows))
        return replace(
            plain,
            message=f"{undecided}; {outcome}",
            feasible_nodes=fits,
            reasons=tuple(
                ReasonRecord(node=w.node, reason=w.reason, message=w.message) for w in whys
            ),
        )


def _placed(pod: Pod, entry: LedgerEntry, decision: Decision | None) -> DecisionRecord:
    """Of a pod that is bound, or about to be: the ledger says where, whatever was decided
    before."""
    node = entry.grant.node
    placed = decision is not None and decision.verdict is Verdict.PLACED
    return DecisionRecord(
        uid=pod.metadata.uid,
        verdict=Verdict.PLACED,
        node=node,
        at=decision.at if decision is not None and placed else entry.since,
        attempts=decision.attempts if decision is not None else 0,
        feasible_nodes=decision.feasible if decision is not None and placed else 0,
        message=f"placed on {node}",
    )


async def _in_pieces(nodes: Iterator[Sequence[UnmetReason]]) -> list[UnmetReason]:
    whys: list[UnmetReason] = []
    for i, of_node in enumerate(nodes):
        whys += of_node
        if i % PIECE == PIECE - 1:
            await asyncio.sleep(0)
    return whys


def _requested(request: PodRequest) -> tuple[RequestedShare, ...]:
    return tuple(
        RequestedShare(
            container=c.container, vendor=r.vendor, dialect=r.dialect, count=r.count,
            memory_bytes=r.memory_bytes, memory_percent=r.memory_percent,
            cores_percent=r.cores_percent, exclusive=r.exclusive,
        )
        for c in request.containers
        for r in c.requests
    )  # fmt: skip


def _limits(allowance: Allowance) -> tuple[LimitUse, ...]:
    return tuple(
        LimitUse(
            source=limit.source, vendor=limit.vendor, models=limit.models,
            memory_bytes=limit.memory_bytes, memory_bytes_used=used.memory_bytes,
            cores_percent=limit.cores_percent, cores_percent_used=used.cores_percent,
            cards=limit.cards, cards_used=used.cards,
        )
        for limit in allowance.limits
        for used in (allowance.used(limit),)
    )  # fmt: skip


def _shares(entry: LedgerEntry) -> LedgerShares:
    grant = entry.grant
    return LedgerShares(node=grant.node, phase=entry.phase, since=entry.since, shares=grant.shares)
