"""kube-scheduler's filter call, from bytes to bytes: choose a node, reserve its cards, answer it.

One node is answered and the others left out, so that two pods are never sent to one share; the
reservation makes it true. A pod asked about again gets its reservation again while that node is
offered and can still be used. Failed nodes carry one of a closed set of words; the numbers are in
the decision. Pods with preferences get all nodes with room instead
(`tessera_core.scheduling.prioritize`).

Failed nodes are called unresolvable, whatever their reason. kube-scheduler asks only about nodes
that have room as it counts; if it looked for victims there, it would try every node by its own
view, find that none has to go, and write a sentence for each node into the pod's condition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.admission.cache import AdmissionCache
from tessera_core.bounded_cache import Cache
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.explain.decision_log import Decision, DecisionLog
from tessera_core.explain.node_reasons import NodeReasons, main_reason
from tessera_core.fleet.arrays import Codes
from tessera_core.fleet.capacity_check import unusable
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, withholding
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.opened_placer import OpenedPlacers
from tessera_core.placement.placer import Placer
from tessera_core.quota.allowance import minimum_usage
from tessera_core.registry.plugin_requests import AllocatedResources, plugin_requests
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.candidates import CandidateCache, CandidateNodes
from tessera_core.scheduling.filter_bodies import problem_of, several
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_core.scheduling.prioritize import (
    FeasibleNodes,
    feasible_nodes,
    has_placement_preferences,
)
from tessera_core.scheduling.promised_nodes import promised_nodes
from tessera_core.scheduling.reserve import Reserved, Unschedulable, reserved_node, try_reserve
from tessera_schema.endpoints.extender import (
    ExtenderArgs,
    ExtenderFilterResult,
    decode_args,
    encode_result,
    pod_bytes,
)
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import Verdict

MAX_ANSWERS: Final = 64
"""Answers kept for shapes that wait under one generation; one for 5,000 nodes has 180 kB."""
MOST_ASKED: Final = 16 << 20
"""Bytes, as JSON, of pods that have a node and are not bound yet: thousands of them. Pods that are
forgotten are filtered again before they are bound."""


class FilteredPod(Struct, frozen=True):
    """A pod that was given a node to be bound to, as kube-scheduler showed it."""

    pod: Pod
    request: PodRequest


class FilterAnswer(Struct, frozen=True, kw_only=True):
    """An answer, and what it means."""

    body: bytes
    verdict: Verdict = Verdict.IGNORED
    pod: Pod | None = None
    node: str = ""
    """Where it is reserved; empty where several nodes are answered."""
    grant: Grant | None = None
    """What this call reserved."""
    reason: Reason | None = None
    """Of a refusal, the one that most nodes gave."""
    message: str = ""
    """What no node can change: a limit of the namespace, or why the pod was rejected."""


class _Known(Struct, frozen=True):
    """The answer to a shape while the ledger does not change."""

    body: bytes
    waiting: Unschedulable
    reason: Reason


class Filter:
    """Answers filter calls on a ledger."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        placer: Placer,
        decisions: DecisionLog,
        *,
        reservations: NodeReservations | None = None,
        in_flight: InFlightPods | None = None,
        held_back: Callable[[Pod, float], str] | None = None,
        passes: Callable[[Pod, float], frozenset[str]] | None = None,
    ) -> None:
        """All are shared with the rest of the scheduler; the placer's fleet is the ledger's.

        `reservations` are the nodes on which plans and preemption make room for pods, `in_flight`
        the pods that equal ones wait for; None = there are none. `held_back` says why a pod waits
        for others whatever room there is, empty for one that does not; None = no pod does.
        `passes` says whose reserved cards a pod may use (`ShadowCards.key`); None = no pod may
        use any.
        """
        self._admissions = AdmissionCache(registry)
        self._ledger = ledger
        self._decisions = decisions
        self._reservations = (
            NodeReservations(ledger.entry) if reservations is None else reservations
        )
        if in_flight is None:
            in_flight = InFlightPods(plugin_requests(registry), partial(reserved_node, ledger))
        self._in_flight = in_flight
        self._held_back = held_back
        self._passes = passes
        self._opened = OpenedPlacers(placer)
        self._offers = CandidateCache(ledger.fleet)
        self._reasons = NodeReasons(ledger.fleet)
        self._waiting: dict[object, _Known] = {}
        self._waiting_at: tuple[int, CandidateNodes | None] = (-1, None)
        self._filtered = Cache[FilteredPod](MOST_ASKED)

    def __call__(self, body: bytes, now: float) -> bytes:
        """The answer to a body of `/filter`. Raises msgspec.DecodeError for what is none."""
        args = decode_args(body)
        return self.answer(args, now, pod_bytes(body, args)).body

    def answer(self, args: ExtenderArgs, now: float, size: int) -> FilterAnswer:
        """The answer to a filter call whose pod came in so many bytes of JSON. Raises
        msgspec.DecodeError when the node names are none."""
        problem = problem_of(args)
        if args.pod is None or problem:
            return FilterAnswer(body=encode_result(ExtenderFilterResult(error=problem)))
        offer = self._offers.of(args.node_names)
        allowed = self._ledger.allowed_in(args.pod.metadata.namespace)
        admission = self._admissions.admit(args.pod, allowed)
        if isinstance(admission, Rejected):
            return self._reject(args.pod, admission, offer, now)
        if admission is None or not admission.request.containers:
            return FilterAnswer(body=several(offer.names), pod=args.pod)
        waits_for = "" if self._held_back is None else self._held_back(args.pod, now)
        if waits_for:
            return self._hold_back(args.pod, admission, waits_for, offer, now)
        answer = self._place_within(args.pod, admission, offer, now)
        if answer.verdict is Verdict.PLACED:
            filtered = FilteredPod(args.pod, admission.request)
            self._filtered.keep(args.pod.metadata.uid, filtered, size)
        return answer

    def reserve_on(self, filtered: FilteredPod, node: str, now: float) -> str:
        """Reserve cards on this node for a pod that was offered several nodes, or whose reservation
        has run out; why not, empty when they are reserved."""
        pod, request, priority = filtered.pod, filtered.request, filtered.pod.spec.priority or 0
        reserved = self._reservations.closed_to(request, priority, now).get(node, "")
        closed = reserved or self._in_flight.closed_to(pod).get(node, "")
        if closed:
            return f"node {node}: {closed}: filter it again"
        only, placer = self._ledger.fleet.only(node), self._opened.get(self._opened_for(pod, now))
        with withholding(self._ledger.fleet, self._ledger.withheld_from((request.uid,), priority)):
            decided = try_reserve(self._ledger, placer, request, only, now, attempt=1)
        if not isinstance(decided, Reserved):
            return f"node {node} has no room for this pod any more: filter it again"
        self._in_flight.reserve(pod, node, now)
        return ""

    def put_node(self, node: str, allocated: AllocatedResources, now: float) -> bool:
        """How the node's containers get cards; True when that was otherwise before."""
        if not self._in_flight.put_node(node, allocated):
            return False
        for uid, filtered in self._filtered.items():
            if reserved_node(self._ledger, uid) == node:
                self._in_flight.reserve(filtered.pod, node, now)
        return True

    def filtered_pod(self, uid: str) -> FilteredPod | None:
        """The pod as it was when it got its node; None when that is too long ago."""
        return self._filtered.get(uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound, or gone."""
        self._filtered.forget(uid)

    def _place_within(
        self, pod: Pod, admission: AdmittedPod, offer: CandidateNodes, now: float
    ) -> FilterAnswer:
        request, priority = admission.request, pod.spec.priority or 0
        withheld = self._ledger.withheld_from((request.uid,), priority)
        closed = {
            **promised_nodes(self._ledger, request, priority, withheld),
            **self._reservations.closed_to(request, priority, now),
        }
        offer = self._offers.without(offer, closed, self._in_flight.closed_to(pod))
        node = self._node_of(admission, offer, now)
        if node:
            return FilterAnswer(body=several((node,)), verdict=Verdict.PLACED, pod=pod, node=node)
        with withholding(self._ledger.fleet, withheld):
            if has_placement_preferences(pod):
                return self._offer_rooms(pod, admission, offer, now)
            return self._decide(pod, admission, offer, now, withheld)

    def _node_of(self, admission: AdmittedPod, offer: CandidateNodes, now: float) -> str:
        """The node of a pod that has cards already; empty where it needs others."""
        fleet, uid = self._ledger.fleet, admission.request.uid
        entry = self._ledger.entry(uid)
        if entry is None:
            return ""
        node = entry.grant.node
        if entry.phase is not AllocationPhase.RESERVED:
            return node
        row = fleet.rows.get(node)
        if row is not None and offer.rows[row] and unusable(fleet, entry.grant) is None:
            entry.since = now
            return node
        self._ledger.forget(uid)
        return ""

    def _decide(
        self,
        pod: Pod,
        admission: AdmittedPod,
        offer: CandidateNodes,
        now: float,
        withheld: Withheld,
    ) -> FilterAnswer:
        request = admission.request
        opened = self._opened_for(pod, now)
        promised = frozenset(withheld.items())
        shape = (request.namespace, request.containers, opened, promised)
        known = self._known(offer, shape)
        if known is None:
            attempt = self._decisions.attempt(request.uid)
            placer = self._opened.get(opened)
            decided = try_reserve(self._ledger, placer, request, offer.rows, now, attempt)
            if isinstance(decided, Reserved):
                return self._place(pod, admission, decided.feasible, now, decided.grant)
            known = self._refuse(decided, offer, request)
            if not decided.itself and not decided.untried:
                self._waiting[shape] = known
            if len(self._waiting) > MAX_ANSWERS:
                del self._waiting[next(iter(self._waiting))]
        return self._keep_waiting(pod, request, known, offer, now)

    def _opened_for(self, pod: Pod, now: float) -> frozenset[str]:
        """Whose reserved cards the pod may use; those of nobody for most pods."""
        if self._passes is None or not self._ledger.fleet.reserved:
            return frozenset()
        return self._passes(pod, now)

    def _offer_rooms(
        self, pod: Pod, admission: AdmittedPod, offer: CandidateNodes, now: float
    ) -> FilterAnswer:
        attempt = self._decisions.attempt(admission.request.uid)
        placer = self._opened.get(self._opened_for(pod, now))
        found = feasible_nodes(self._ledger, placer, admission.request, offer.rows, attempt)
        if isinstance(found, FeasibleNodes):
            placed = self._place(pod, admission, len(found.names), now, None)
            return replace(placed, body=several(found.names))
        refusal = self._refuse(found, offer, admission.request)
        return self._keep_waiting(pod, admission.request, refusal, offer, now)

    def _place(
        self, pod: Pod, admission: AdmittedPod, feasible: int, now: float, grant: Grant | None
    ) -> FilterAnswer:
        request, node = admission.request, "" if grant is None else grant.node
        self._in_flight.reserve(pod, node, now)
        self._decisions.keep(
            Decision(
                uid=request.uid,
                request=request,
                verdict=Verdict.PLACED,
                at=now,
                node=node,
                feasible=feasible,
            ),
            self._ledger.fleet,
        )
        return FilterAnswer(
            body=several((node,)), verdict=Verdict.PLACED, pod=pod, node=node, grant=grant
        )

    def _keep_waiting(
        self, pod: Pod, request: PodRequest, known: _Known, offer: CandidateNodes, now: float
    ) -> FilterAnswer:
        waiting = known.waiting
        self._ledger.set_pending_request(request.uid, request.namespace, minimum_usage(request))
        self._decisions.keep(
            Decision(
                uid=request.uid, request=request, verdict=Verdict.WAITING, at=now,
                over=waiting.over, untried=len(waiting.untried),
                generation=self._ledger.generation,
                allowance=self._ledger.allowance(request.namespace), candidates=offer.rows,
                reserved=offer.reserved, starting=offer.starting,
            ),
            self._ledger.fleet,
        )  # fmt: skip
        return FilterAnswer(
            body=known.body, verdict=Verdict.WAITING, pod=pod, reason=known.reason,
            message=waiting.over,
        )  # fmt: skip

    def _hold_back(
        self, pod: Pod, admission: AdmittedPod, why: str, offer: CandidateNodes, now: float
    ) -> FilterAnswer:
        reason = Reason.GANG_WAITING
        self._decisions.keep(
            Decision(
                uid=pod.metadata.uid, request=admission.request, verdict=Verdict.WAITING, at=now,
                over=why, reason=reason,
            ),
            self._ledger.fleet,
        )  # fmt: skip
        return FilterAnswer(
            body=offer.answers.all_refused(reason), verdict=Verdict.WAITING, pod=pod,
            reason=reason, message=why,
        )  # fmt: skip

    def _reject(
        self, pod: Pod, rejected: Rejected, offer: CandidateNodes, now: float
    ) -> FilterAnswer:
        self._decisions.keep(
            Decision(
                uid=pod.metadata.uid,
                verdict=Verdict.REJECTED,
                at=now,
                over=rejected.message,
                reason=rejected.reason,
            ),
            self._ledger.fleet,
        )
        return FilterAnswer(
            body=offer.answers.all_refused(rejected.reason), pod=pod,
            verdict=Verdict.REJECTED, reason=rejected.reason, message=rejected.message,
        )  # fmt: skip

    def _refuse(self, waiting: Unschedulable, offer: CandidateNodes, request: PodRequest) -> _Known:
        failed = self._failed(waiting, offer, request)
        return _Known(offer.answers.refused(failed), waiting, main_reason(failed))

    def _known(self, offer: CandidateNodes, shape: object) -> _Known | None:
        """The answer that the same shape got under the same ledger, if it had to wait."""
        generation, at = self._waiting_at
        if generation != self._ledger.generation or at is not offer:
            self._waiting, self._waiting_at = {}, (self._ledger.generation, offer)
        return self._waiting.get(shape) if self._waiting else None  # a shape is long to hash

    def _failed(self, waiting: Unschedulable, offer: CandidateNodes, request: PodRequest) -> Codes:
        """The reason of each node that was offered."""
        if waiting.over:
            return np.full(len(offer.names), Reason.RESOURCE_QUOTA_NOT_FIT, np.uint8)
        known = self._ledger.fleet.rows
        codes = self._reasons.codes(waiting.units, self._ledger.allowance(request.namespace))
        codes[list(waiting.untried)] = Reason.NODE_NOT_TRIED
        for reason, closed in (
            (Reason.NODE_STARTING_EQUAL_POD, offer.starting),
            (Reason.NODE_RESERVED, offer.reserved),
        ):
            codes[[known[node] for node in closed if node in known]] = reason
        return codes[offer.at]
