"""kube-scheduler's bind call: one write places the pod and records its cards.

What may go wrong, and what it leaves:

    accepted                    BOUND
    definitely refused, 429     the reservation is dropped; kube-scheduler begins again
    409, 404                    the pod is read. Not bound: sent again with its resourceVersion;
                                bound with this grant: BOUND; by another scheduler, or gone: dropped
    time-out, reset, 5xx        UNSETTLED: it may have been written, or be written yet

An unsettled Binding keeps its cards. Reading shows it written, or the pod gone or bound elsewhere,
which decides. Reading it *unbound* does not, because the write may still come; two things do. When
kube-scheduler asks again (it does, as it was answered an error), the same Binding is sent once more
with the resourceVersion just read: whichever of the two comes first is what happened, and the other
is refused. And when kube-scheduler does not ask, the cards are given up once the write is too old
to come (`late_s`). Should it come even then, the grant is valid and is counted, and the node's
agent refuses what would exceed the card."""

from __future__ import annotations

import asyncio

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.scheduling.filter import Filter, FilteredPod
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.tracing.durations import timed_span
from tessera_scheduler.binding.grant_annotations import GrantAnnotations, Unwritable
from tessera_scheduler.binding.outcomes import DONE, BindingOutcomes
from tessera_scheduler.binding.quorum_read import PodReadState, QuorumReader
from tessera_scheduler.binding.sender import BindingSender
from tessera_scheduler.binding.store import BindingStore
from tessera_scheduler.events import trace_of
from tessera_schema.endpoints.extender import ExtenderBindingArgs
from tessera_schema.kube import Pod


class Binder:
    """Binds pods, one call at a time for each."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        filter_: Filter,
        store: BindingStore,
        outcomes: BindingOutcomes,
        annotations: GrantAnnotations,
        quorum_reader: QuorumReader,
        sender: BindingSender,
    ) -> None:
        """`store` is shared with `outcomes`."""
        self._ledger = ledger
        self._filter = filter_
        self._store = store
        self._outcomes = outcomes
        self._annotations = annotations
        self._quorum_reader = quorum_reader
        self._sender = sender

    async def bind(self, args: ExtenderBindingArgs, now: float) -> str:
        """Bind the pod; why not, empty when it is bound."""
        for field, value in (
            ("PodName", args.pod_name), ("PodNamespace", args.pod_namespace),
            ("PodUID", args.pod_uid), ("Node", args.node),
        ):  # fmt: skip
            if not value:
                return f"{field}: missing: send the whole binding"
        uid = args.pod_uid
        filtered = self._filter.filtered_pod(uid)
        parent = trace_of(filtered.pod.metadata.annotations) if filtered is not None else ""
        if not self._store.begin(uid):
            return "a Binding of this pod is under way; ask again"
        try:
            with timed_span(
                self._outcomes.seconds, "tessera.scheduler.bind", parent,
                pod=f"{args.pod_namespace}/{args.pod_name}", node=args.node,
            ) as span:  # fmt: skip
                problem = await self._bind(args, filtered, now) or self._bound_elsewhere(args)
                if problem:
                    span.failed(problem)
        except asyncio.CancelledError:
            self._outcomes.settle_later(PodKey(args.pod_namespace, args.pod_name, uid))
            raise
        finally:
            self._store.end(uid)
        return problem

    async def _bind(
        self, args: ExtenderBindingArgs, filtered: FilteredPod | None, now: float
    ) -> str:
        name = PodKey(args.pod_namespace, args.pod_name, args.pod_uid)
        entry = self._ledger.entry(name.uid)
        if entry is None:
            problem = self._reserve(filtered, args.node, now)
            entry = self._ledger.entry(name.uid)
            if problem or entry is None:
                return problem
        if entry.phase is AllocationPhase.BOUND:
            self._outcomes.found_bound(entry)
        if entry.grant.node != args.node:
            there = entry.grant.node
            return f"the pod's cards are on {there}, not on {args.node}: filter it again"
        match entry.phase:
            case AllocationPhase.RESERVED:
                return await self._send_first(name, entry, filtered)
            case AllocationPhase.BINDING | AllocationPhase.UNSETTLED:
                return await self._send_again(name, entry, filtered)
            case AllocationPhase.BOUND | AllocationPhase.RELEASED:
                return DONE

    def _reserve(self, filtered: FilteredPod | None, node: str, now: float) -> str:
        if filtered is None:
            return "no cards are reserved for this pod: filter it again"
        return self._filter.reserve_on(filtered, node, now)

    def _bound_elsewhere(self, args: ExtenderBindingArgs) -> str:
        """That another leader has bound the pod to another node meanwhile; empty when not so."""
        entry = self._ledger.entry(args.pod_uid)
        if entry is None or entry.grant.node == args.node:
            return ""
        return f"the pod is bound to {entry.grant.node}, not to {args.node}"

    async def _send_first(
        self, name: PodKey, entry: LedgerEntry, filtered: FilteredPod | None
    ) -> str:
        if not self._sender.may_send:
            return "this replica is about to stop leading: ask again"
        if filtered is None:
            self._outcomes.drop(name.uid)
            return "the pod was filtered too long ago: it has to be filtered again"
        try:
            target = self._annotations.binding_target(name, filtered.pod, entry.grant)
        except Unwritable as e:
            self._outcomes.drop(name.uid)
            return str(e)
        self._ledger.binding_sent(name.uid)
        return await self._sender.send(target, "", unsettled=False)

    async def _send_again(
        self, name: PodKey, entry: LedgerEntry, filtered: FilteredPod | None
    ) -> str:
        """The outcome of a former Binding is not known."""
        found = await self._quorum_reader.try_read(name)
        if found is None:
            return "whether the pod is bound is not known yet: ask again"
        if found.state is not PodReadState.OPEN:
            return self._outcomes.decided(name, found)
        pod = filtered.pod if filtered else found.pod or Pod()
        try:
            target = self._annotations.binding_target(name, pod, entry.grant)
        except Unwritable as e:
            return str(e)
        return await self._sender.send(target, found.version, unsettled=True)
