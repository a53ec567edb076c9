"""kube-scheduler's bind call: one write places the pod and records its cards.

What may go wrong, and what it leaves:

    accepted                    BOUND
    definitely refused, 429     the reservation is dropped; kube-scheduler starts anew
    409, 404                    the pod is read. Not bound: sent again with its resourceVersion;
                                bound with our grant: BOUND; by somebody else, or gone: dropped
    time-out, reset, 5xx        UNSETTLED: it may have been written, or be written yet

An unsettled Binding keeps its cards. Reading shows it written, or the pod gone or bound elsewhere,
which decides. Reading it *unbound* does not, because the write may still come; two things do. When
kube-scheduler asks again (it does, as it was answered an error), the same Binding is sent once more
with the resourceVersion just read: whichever of the two comes first is what happened, and the other
is refused. And when nobody asks, the cards are given up once the write is too old to come
(`late_s`). Should it come even then, the grant is valid and is counted, and the node's agent
refuses what would exceed the card.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from tessera_core.grants.result_annotations import written_labels
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.scheduling.filter import FilteredPod
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.grant_annotations import Unwritable, binding_annotations
from tessera_scheduler.binding.outcomes import DONE, BinderDependencies, BindingOutcomes
from tessera_scheduler.binding.quorum_read import PodReadResult, PodReadState
from tessera_scheduler.binding.request import (
    BindingContested,
    BindingDeferred,
    BindingOutcomeUnknown,
    BindingRejected,
    BindingTarget,
    BindingWritten,
    send_binding,
)
from tessera_scheduler.events import trace_of
from tessera_scheduler.settings import BindSettings
from tessera_schema.annotation_keys import TERM_KEY, TRACE_KEY
from tessera_schema.endpoints.extender import ExtenderBindingArgs
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.kube import Pod


class _NotDone(Struct, frozen=True):
    """An attempt wrote nothing."""

    why: str
    version: str
    """For the next one."""
    again: bool


class Binder:
    """Binds pods, one call at a time for each."""

    def __init__(self, around: BinderDependencies, settings: BindSettings, call_s: float) -> None:
        """A call to the API server is given up after `call_s` seconds."""
        self._around = around
        self._ledger = around.ledger
        self._settings = settings
        self._call_s = call_s
        self._outcomes = BindingOutcomes(around, settings)

    async def bind(self, args: ExtenderBindingArgs) -> str:
        """Bind the pod; why not, empty when it is bound."""
        for field, value in (
            ("PodName", args.pod_name), ("PodNamespace", args.pod_namespace),
            ("PodUID", args.pod_uid), ("Node", args.node),
        ):  # fmt: skip
            if not value:
                return f"{field}: missing: send the whole binding"
        uid = args.pod_uid
        busy = self._outcomes.busy
        if uid in busy:
            return "a Binding of this pod is under way; ask again"
        ask = self._around.filter.filtered_pod(uid)
        parent = trace_of(ask.pod.metadata.annotations) if ask is not None else ""
        with tracing.span(
            "tessera.scheduler.bind", parent, pod=f"{args.pod_namespace}/{args.pod_name}",
            node=args.node,
        ) as span:  # fmt: skip
            busy.add(uid)
            try:
                problem = await self._bind(args, ask) or self._elsewhere(args)
            except asyncio.CancelledError:
                self._outcomes.keep(PodKey(args.pod_namespace, args.pod_name, uid))
                raise
            finally:
                busy.discard(uid)
            if problem:
                span.failed(problem)
        return problem

    def on_pod_gone(self, uid: str) -> None:
        """The pod has ended."""
        self._outcomes.gone(uid)

    # -- which way

    async def _bind(self, args: ExtenderBindingArgs, ask: FilteredPod | None) -> str:
        name = PodKey(args.pod_namespace, args.pod_name, args.pod_uid)
        entry = self._ledger.entry(name.uid)
        if entry is None:
            problem = self._reserve(ask, args.node)
            entry = self._ledger.entry(name.uid)
            if problem or entry is None:
                return problem
        if entry.phase is AllocationPhase.BOUND:
            self._outcomes.if_found(entry)
        if entry.grant.node != args.node:
            there = entry.grant.node
            return f"the pod's cards are on {there}, not on {args.node}: filter it again"
        match entry.phase:
            case AllocationPhase.RESERVED:
                return await self._send_first(name, entry, ask)
            case AllocationPhase.BINDING | AllocationPhase.UNSETTLED:
                return await self._send_again(name, entry, ask)
            case AllocationPhase.BOUND | AllocationPhase.RELEASED:
                return DONE

    def _elsewhere(self, args: ExtenderBindingArgs) -> str:
        """That another leader has bound the pod to another node meanwhile; empty when not so."""
        entry = self._ledger.entry(args.pod_uid)
        if entry is None or entry.grant.node == args.node:
            return ""
        return f"the pod is bound to {entry.grant.node}, not to {args.node}"

    def _reserve(self, ask: FilteredPod | None, node: str) -> str:
        """For a pod that was offered several nodes, or whose reservation has run out; why not."""
        if ask is None:
            return "no cards are reserved for this pod: filter it again"
        only, now = self._ledger.fleet.only(node), self._around.steady.time()
        closed = self._around.filter.closed(ask, node, now)
        if closed:
            return f"node {node}: {closed}: filter it again"
        decided = try_reserve(self._ledger, self._around.placer, ask.request, only, now, attempt=1)
        if isinstance(decided, Reserved):
            self._around.filter.starting.reserve(ask.pod, node, now)
            return ""
        return f"node {node} has no room for this pod any more: filter it again"

    async def _send_first(self, name: PodKey, entry: LedgerEntry, ask: FilteredPod | None) -> str:
        if self._around.fence() < self._call_s:
            return "this replica is about to stop leading: ask again"
        if ask is None:
            self._outcomes.drop(name.uid)
            return "the pod was filtered too long ago: it has to be filtered again"
        try:
            target = self._target(name, entry.grant, ask.pod)
        except Unwritable as e:
            self._outcomes.drop(name.uid)
            return str(e)
        self._ledger.binding_sent(name.uid)
        return await self._write(target, "", unsettled=False)

    async def _send_again(self, name: PodKey, entry: LedgerEntry, ask: FilteredPod | None) -> str:
        """The outcome of a former Binding is not known."""
        found = await self._looked(name)
        if found is None:
            return "whether the pod is bound is not known yet: ask again"
        if found.state is not PodReadState.OPEN:
            return self._outcomes.decided(name, found)
        try:
            target = self._target(name, entry.grant, ask.pod if ask else found.pod or Pod())
        except Unwritable as e:
            return str(e)
        return await self._write(target, found.version, unsettled=True)

    def _target(self, name: PodKey, grant: Grant, pod: Pod) -> BindingTarget:
        around = self._around
        signer = around.keys.signer
        written = binding_annotations(
            around.registry, self._ledger, signer, pod, grant, around.clock
        )
        trace = tracing.current_traceparent()
        if trace and TRACE_KEY not in pod.metadata.annotations:
            written[TRACE_KEY] = trace
        written[TERM_KEY] = around.term()
        around.reader.signed(grant, written[GRANT_KEY])
        labels = written_labels(around.registry, pod, grant)
        return BindingTarget(name=name, grant=grant, annotations=written, labels=labels)

    # -- writing

    async def _write(self, target: BindingTarget, version: str, *, unsettled: bool) -> str:
        """Send the Binding until there is an answer that decides, or none in time. With
        `unsettled` a former one is on its way: a refusal of this one says nothing of that."""
        around = self._around
        until = around.steady.time() + self._settings.whole_s
        problem = "this replica is about to stop leading, or the API server is slow: ask again"
        for _ in range(self._settings.tries):
            if around.fence() < self._call_s or around.steady.time() > until:
                break
            turned = await self._attempt(target, version)
            if isinstance(turned, str):
                return turned
            problem, version = turned.why, turned.version
            if not turned.again:
                break
        if unsettled:
            return self._outcomes.lost(target.name, problem, anew=False)
        return self._outcomes.refused(target.name.uid, problem)

    async def _attempt(self, target: BindingTarget, version: str) -> str | _NotDone:
        """What bind answers, or that this attempt wrote nothing."""
        sent = await send_binding(self._around.kube, target, version, self._call_s)
        match sent:
            case BindingWritten():
                return self._outcomes.bound(target.name.uid, target.grant)
            case BindingOutcomeUnknown(why):
                return self._outcomes.lost(target.name, why, anew=True)
            case BindingRejected(why):
                return _NotDone(why, version, again=False)
            case BindingDeferred(why, after_s):
                soon = after_s < self._settings.whole_s
                await asyncio.sleep(after_s if soon else 0)
                return _NotDone(why, version, again=soon)
            case BindingContested(why):
                return await self._contested(target, why)

    async def _contested(self, target: BindingTarget, why: str) -> str | _NotDone:
        found = await self._looked(target.name)
        if found is None:
            return self._outcomes.lost(target.name, why, anew=False)
        if found.state is not PodReadState.OPEN:
            return self._outcomes.decided(target.name, found)
        return _NotDone(why, found.version, again=True)

    async def _looked(self, name: PodKey) -> PodReadResult | None:
        """The pod as it is now; None when it cannot be read."""
        try:
            return await self._around.looking.read(name)
        except (Transient, ApiRefused):
            return None
