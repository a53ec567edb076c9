"""kube-scheduler's filter call, from bytes to bytes: choose a node, reserve its cards, answer it.

One node is answered and the others left out, so that two pods are never sent to one tile; the
reservation makes it true. A pod asked about again gets its reservation again while that node is
offered and can still be used. Failed nodes carry one of a closed set of words; the numbers are in
the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from tessera_core.admission import Admission, admit
from tessera_core.capacity import unusable
from tessera_core.cards import Bools, Ints
from tessera_core.deciding import Reserved, Waiting, decide
from tessera_core.decisions import Decision, Decisions
from tessera_core.dialect import Rejected
from tessera_core.ledger import Ledger
from tessera_core.machines.allocation import Phase
from tessera_core.outcome import Verdict
from tessera_core.registry import Registry
from tessera_core.words import node_words
from tessera_schema.extender import (
    ExtenderArgs,
    ExtenderFilterResult,
    decode_args,
    decode_names,
    encode_result,
)
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

MAX_ANSWERS: Final = 64
"""Answers kept for shapes that wait under one generation; one for 5,000 nodes has 180 kB."""


class Offer(Struct, frozen=True):
    """The nodes that kube-scheduler offers."""

    data: bytes
    layout: int
    """The fleet's, when the rows were looked up."""
    names: tuple[str, ...]
    at: Ints
    """Each name's row, -1 where the fleet does not know it."""
    rows: Bools


class Filter:
    """Answers filter calls on a ledger."""

    def __init__(self, registry: Registry, ledger: Ledger, decisions: Decisions) -> None:
        """All three are shared with the rest of the scheduler."""
        self._registry = registry
        self._ledger = ledger
        self._decisions = decisions
        self._offered: Offer | None = None
        self._waiting: dict[object, tuple[bytes, Waiting]] = {}
        self._waiting_at: tuple[int, Offer | None] = (-1, None)

    def __call__(self, body: bytes, now: float) -> bytes:
        """The answer to a body of `/filter`. Raises msgspec.DecodeError for what is none."""
        args = decode_args(body)
        problem = _unasked(args)
        if args.pod is None or problem:
            return encode_result(ExtenderFilterResult(error=problem))
        offer = self._offer(args.node_names)
        admission = admit(self._registry, args.pod)
        if isinstance(admission, Rejected):
            return self._reject(args.pod, admission, offer, now)
        if admission is None or not admission.request.containers:
            return encode_result(ExtenderFilterResult(node_names=offer.names))
        held = self._held(admission, offer)
        return held or self._decide(admission.request, offer, now)

    def _held(self, admission: Admission, offer: Offer) -> bytes | None:
        """The answer for a pod that has cards already."""
        fleet, uid = self._ledger.fleet, admission.request.uid
        entry = self._ledger.entry(uid)
        if entry is None:
            return None
        node = entry.grant.node
        if entry.phase is not Phase.RESERVED:
            return _one(node)
        row = fleet.rows.get(node)
        if row is not None and offer.rows[row] and unusable(fleet, entry.grant) is None:
            return _one(node)
        self._ledger.forget(uid)
        return None

    def _decide(self, request: PodRequest, offer: Offer, now: float) -> bytes:
        shape = (request.namespace, request.containers)
        known = self._known(offer, shape)
        if known is not None:
            self._keep_waiting(request, known[1], offer, now)
            return known[0]
        decided = decide(self._ledger, request, offer.rows, now)
        if isinstance(decided, Reserved):
            self._decisions.keep(
                Decision(
                    uid=request.uid, request=request, verdict=Verdict.PLACED, at=now,
                    node=decided.grant.node, feasible=decided.feasible,
                ),
                self._ledger.fleet,
            )  # fmt: skip
            return _one(decided.grant.node)
        self._keep_waiting(request, decided, offer, now)
        answer = _none(self._failed(decided, offer))
        self._waiting[shape] = answer, decided
        if len(self._waiting) > MAX_ANSWERS:
            del self._waiting[next(iter(self._waiting))]
        return answer

    def _keep_waiting(
        self, request: PodRequest, waiting: Waiting, offer: Offer, now: float
    ) -> None:
        self._decisions.keep(
            Decision(
                uid=request.uid, request=request, verdict=Verdict.WAITING, at=now,
                over=waiting.over, generation=self._ledger.generation,
                allowance=self._ledger.allowance(request.namespace), candidates=offer.rows,
            ),
            self._ledger.fleet,
        )  # fmt: skip

    def _reject(self, pod: Pod, rejected: Rejected, offer: Offer, now: float) -> bytes:
        self._decisions.keep(
            Decision(
                uid=pod.metadata.uid, verdict=Verdict.REJECTED, at=now, over=rejected.message,
                reason=rejected.reason,
            ),
            self._ledger.fleet,
        )  # fmt: skip
        return _none(dict.fromkeys(offer.names, rejected.reason.wire))

    def _offer(self, raw: msgspec.Raw) -> Offer:
        """The names offered, decoded once while the same ones keep coming."""
        fleet, data = self._ledger.fleet, bytes(raw)
        cached = self._offered
        if cached is None or cached.layout != fleet.layout or cached.data != data:
            names = decode_names(raw)
            at = np.array([fleet.rows.get(n, -1) for n in names], np.int64)
            rows = np.zeros(len(fleet.names), np.bool_)
            rows[at[at >= 0]] = True
            cached = self._offered = Offer(data, fleet.layout, names, at, rows)
        return cached

    def _known(self, offer: Offer, shape: object) -> tuple[bytes, Waiting] | None:
        """The answer that the same shape got under the same books, if it had to wait."""
        generation, at = self._waiting_at
        if generation != self._ledger.generation or at is not offer:
            self._waiting, self._waiting_at = {}, (self._ledger.generation, offer)
        return self._waiting.get(shape)

    def _failed(self, waiting: Waiting, offer: Offer) -> dict[str, str]:
        """A word for each node that was offered."""
        if waiting.over:
            return dict.fromkeys(offer.names, Reason.RESOURCE_QUOTA_NOT_FIT.wire)
        words = node_words(self._ledger.fleet, waiting.units)
        given = (words[row] for row in offer.at.tolist())
        return dict(zip(offer.names, given, strict=True))


def _unasked(args: ExtenderArgs) -> str:
    """What the body lacks; empty when it lacks nothing."""
    if args.pod is None:
        return "Pod: missing: send the pod to filter"
    if bytes(args.node_names) == b"null":
        return "NodeNames: missing: set nodeCacheCapable in the extender's configuration"
    return ""


def _one(node: str) -> bytes:
    return encode_result(ExtenderFilterResult(node_names=(node,)))


def _none(failed: Mapping[str, str]) -> bytes:
    return encode_result(ExtenderFilterResult(node_names=(), failed_nodes=dict(failed)))
