"""kube-scheduler's filter call, from bytes to bytes: choose a node, reserve its cards, answer it.

One node is answered and the others left out, so that two pods are never sent to one tile; the
reservation makes it true. A pod asked about again gets its reservation again while that node is
still offered. Failed nodes carry one of a closed set of words; the numbers are in the decision.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import Struct

from tessera_core import ladder
from tessera_core.admission import Admission, admit
from tessera_core.cards import Bools, Ints
from tessera_core.decisions import Decision, Decisions
from tessera_core.dialect import Rejected
from tessera_core.ledger import Ledger
from tessera_core.machines.allocation import Phase
from tessera_core.outcome import Verdict
from tessera_core.placement import Found, NotFound, ids_in, place
from tessera_core.quota import Allowance, least_use
from tessera_core.registry import Registry
from tessera_schema.extender import (
    ExtenderArgs,
    ExtenderFilterResult,
    decode_args,
    decode_names,
    encode_result,
)
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


class Offered(Struct, frozen=True):
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
        self._offered: Offered | None = None
        self._waiting: dict[object, bytes] = {}
        self._waiting_at = (-1, b"")

    def __call__(self, body: bytes, now: float) -> bytes:
        """The answer to a body of `/filter`. Raises msgspec.DecodeError for what is none."""
        args = decode_args(body)
        if args.pod is None:
            return encode_result(ExtenderFilterResult(error="Pod: missing: send the pod to filter"))
        admission = admit(self._registry, args.pod)
        if admission is None or (
            isinstance(admission, Admission) and not admission.request.containers
        ):
            return encode_result(ExtenderFilterResult(node_names=decode_names(args.node_names)))
        if isinstance(admission, Rejected):
            names = decode_names(args.node_names)
            word = admission.reason.wire
            return encode_result(
                ExtenderFilterResult(node_names=(), failed_nodes=dict.fromkeys(names, word))
            )
        return self._answer(args, admission, now)

    def _answer(self, args: ExtenderArgs, admission: Admission, now: float) -> bytes:
        request, ledger = admission.request, self._ledger
        offer = self._offer(args.node_names)
        offered = offer.rows
        entry = ledger.entry(request.uid)
        if entry is not None and entry.phase is Phase.RESERVED:
            if offered[ledger.fleet.rows[entry.grant.node]]:
                return _one(entry.grant.node)
            ledger.forget(request.uid)
        shape = (request.namespace, request.containers)
        known = self._known(args.node_names, shape)
        if known is not None:
            self._keep_waiting(admission, ledger.quota.allowance(request.namespace), offered, now)
            return known
        allowance = ledger.quota.allowance(request.namespace)
        over = allowance.exceeded(least_use(request))
        found = NotFound((), 0) if over else place(ledger.fleet, request, allowance, offered)
        if isinstance(found, Found):
            return self._reserve(admission, found, now)
        self._keep_waiting(admission, allowance, offered, now, over)
        word = Reason.RESOURCE_QUOTA_NOT_FIT.wire
        failed = dict.fromkeys(offer.names, word) if over else self._failed(found, offer)
        answer = encode_result(ExtenderFilterResult(node_names=(), failed_nodes=failed))
        self._waiting[shape] = answer
        return answer

    def _reserve(self, admission: Admission, found: Found, now: float) -> bytes:
        request = admission.request
        grant = Grant(
            uid=request.uid, namespace=request.namespace, name=request.name,
            node=found.node, shares=found.shares,
        )  # fmt: skip
        refusal = self._ledger.assume([grant], now)
        if refusal is not None:
            return encode_result(ExtenderFilterResult(error=refusal.message))
        self._decisions.keep(
            Decision(
                request=request, verdict=Verdict.PLACED, at=now, node=found.node,
                generation=self._ledger.generation, feasible=found.feasible,
            )
        )  # fmt: skip
        return _one(found.node)

    def _keep_waiting(
        self, admission: Admission, allowance: Allowance, offered: Bools, now: float, over: str = ""
    ) -> None:
        generation = self._ledger.generation
        self._decisions.keep(
            Decision(
                request=admission.request, verdict=Verdict.WAITING, at=now, generation=generation,
                message=over, allowance=None if over else allowance, candidates=offered,
                books=None if over else self._decisions.books(self._ledger.fleet, generation),
            )
        )  # fmt: skip

    def _offer(self, raw: msgspec.Raw) -> Offered:
        """The names offered, decoded once while the same ones keep coming."""
        fleet, data = self._ledger.fleet, bytes(raw)
        cached = self._offered
        if cached is None or cached.layout != fleet.layout or cached.data != data:
            names = decode_names(raw)
            at = np.array([fleet.rows.get(n, -1) for n in names], np.int64)
            rows = np.zeros(len(fleet.names), np.bool_)
            rows[at[at >= 0]] = True
            cached = self._offered = Offered(data, fleet.layout, names, at, rows)
        return cached

    def _known(self, raw: msgspec.Raw, shape: object) -> bytes | None:
        """The answer that the same shape got under the same books, if it had to wait."""
        at = (self._ledger.generation, bytes(raw))
        if self._waiting_at != at:
            self._waiting, self._waiting_at = {}, at
        return self._waiting.get(shape)

    def _failed(self, found: NotFound, offer: Offered) -> dict[str, str]:
        """For each node the word of the test that its best card failed."""
        fleet = self._ledger.fleet
        codes = np.zeros(len(fleet.names), np.uint8)
        for unit in found.units:
            vendor = fleet.vendors.known(unit.lead.vendor)
            mine = fleet.cards.vendor == (-2 if vendor is None else vendor)
            rungs = ladder.rungs(
                unit.lead, unit.need(fleet.cards), fleet.cards,
                models=fleet.models, modes=fleet.modes, ids=ids_in(fleet, unit.lead),
            )  # fmt: skip
            of_cards = np.where(mine, ladder.first_reasons(rungs, mine.shape), 0)
            fits = (mine & (of_cards == 0)).sum(1)
            short = np.where(
                mine.sum(1) == 0, Reason.NODE_UNREGISTERED,
                np.where(
                    mine.sum(1) < unit.lead.count, Reason.NODE_INSUFFICIENT_DEVICE, of_cards.max(1)
                ),
            )  # fmt: skip
            codes = np.where((codes == 0) & (fits < unit.lead.count), short, codes)
        words = {int(r): r.wire for r in Reason}
        words[0] = Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST.wire
        given = np.where(offer.at < 0, Reason.NODE_UNREGISTERED, codes[offer.at])
        return dict(zip(offer.names, map(words.__getitem__, given.tolist()), strict=True))


def _one(node: str) -> bytes:
    return encode_result(ExtenderFilterResult(node_names=(node,)))
