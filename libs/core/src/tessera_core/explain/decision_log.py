"""Why every pod got the answer it got: kept per pod, bounded, rendered when asked.

A record of a pod that waits names the ledger generation that it was decided under, and the ledger
of the last generations are kept: a thousand equal pods cost one copy. When the copy is gone, the
pod is explained from today's ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from tessera_core.bounded_cache import Cache
from tessera_core.explain.reasons import node_by_node, summary
from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS, Allowance
from tessera_schema.decisions import DecisionRecord, ReasonRecord
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest
from tessera_schema.verdicts import UnmetReason, Verdict

MOST_RECORDS: Final = 32 << 20
"""Bytes of all records, requests as JSON: some fifty thousand usual ones. A pod whose record is
gone is decided again at its next attempt."""
MOST_MESSAGE: Final = 1_024
"""Letters of what no node can change, which quotes the pod's own values."""
_RECORD: Final = 512
"""Bytes of a record without its request and its texts."""
MAX_COPIES: Final = 16
"""A copy of the use of 5,000 nodes x 8 cards takes 1.3 MB."""

_encode = msgspec.json.Encoder().encode


class Decision(Struct, kw_only=True):
    """One pod's latest answer."""

    uid: str
    verdict: Verdict
    at: float
    """Seconds of the caller's clock."""
    attempts: int = 1
    request: PodRequest | None = None
    """None for a pod that was rejected."""
    node: str = ""
    feasible: int = 0
    """Nodes that passed the screen."""
    untried: int = 0
    """Nodes that may have room, and were left to the pod's next attempts."""
    over: str = ""
    """What no node could change: a limit of the namespace, or why the pod was rejected."""
    reason: Reason = Reason.RESOURCE_QUOTA_NOT_FIT
    """What `over` is."""
    generation: int = -1
    """The ledger's, when it was decided."""
    allowance: Allowance = NO_LIMITS
    candidates: Bools | None = None
    """The rows that were offered, and not left to others."""
    reserved: Mapping[str, str] = {}
    """Nodes that were left to others, with why."""
    starting: Mapping[str, str] = {}
    """Nodes on which another pod has to start first, with which."""


class DecisionLog:
    """The latest decision of each pod."""

    def __init__(self) -> None:
        """No records."""
        self._records = Cache[Decision](MOST_RECORDS)
        self._offered: Bools | None = None
        """The rows of the last record: most records share them."""
        self._ledger: dict[int, Fleet] = {}

    def get(self, uid: str) -> Decision | None:
        """The pod's record."""
        return self._records.get(uid)

    def attempt(self, uid: str) -> int:
        """The number of the pod's next attempt, from 1."""
        former = self._records.get(uid)
        return 1 if former is None else former.attempts + 1

    def keep(self, decision: Decision, fleet: Fleet) -> None:
        """Record a decision that was made on `fleet`, replacing the pod's former one."""
        decision.attempts = self.attempt(decision.uid)
        if len(decision.over) > MOST_MESSAGE:
            decision.over = f"{decision.over[: MOST_MESSAGE - 3]}..."
        self._records.keep(decision.uid, decision, self._size(decision))
        waits = decision.verdict is Verdict.WAITING and not decision.over
        if waits and decision.generation not in self._ledger:
            self._ledger[decision.generation] = fleet.snapshot()
            if len(self._ledger) > MAX_COPIES:
                del self._ledger[next(iter(self._ledger))]

    @property
    def size(self) -> tuple[int, int]:
        """How many records there are, and their bytes."""
        return len(self._records), self._records.bytes

    def _size(self, decision: Decision) -> int:
        rows, self._offered = self._offered, decision.candidates
        own = 0 if rows is self._offered or self._offered is None else self._offered.nbytes
        return _RECORD + own + len(decision.over) + len(_encode(decision.request))

    def why(self, uid: str, today: Fleet) -> tuple[UnmetReason, ...]:
        """Why the pod is not placed, node by node in numbers; nothing for a pod that is."""
        decision = self._records.get(uid)
        return () if decision is None else tuple(chain.from_iterable(self.whys(decision, today)))

    def whys(self, decision: Decision, today: Fleet) -> Iterator[Sequence[UnmetReason]]:
        """The same, one node at a time. `today` must not change meanwhile: give a snapshot."""
        if decision.verdict is Verdict.PLACED:
            return iter(())
        if decision.over or decision.request is None:
            return iter([(UnmetReason(reason=decision.reason, message=decision.over),)])
        ledger = self._ledger.get(decision.generation)
        fleet = ledger or today
        apart = _not_offered(decision, fleet) if ledger is not None else {}
        whys = node_by_node(fleet, units(decision.request), decision.allowance, apart)
        return _with_untried(whys, fleet, decision.untried) if decision.untried else whys

    def offered(self, decision: Decision, today: Fleet) -> Bools | None:
        """The rows of `today` whose nodes were offered when it was decided; None = all, as far as
        is known."""
        ledger = self._ledger.get(decision.generation)
        if decision.candidates is None or ledger is None:
            return None
        left = {ledger.names[i] for i in np.flatnonzero(~decision.candidates).tolist()}
        return np.array([name not in left for name in today.names], np.bool_)

    def record(self, uid: str, today: Fleet) -> DecisionRecord | None:
        """The pod's decision in full, None for a pod that was never asked about."""
        decision = self._records.get(uid)
        return None if decision is None else self.record_with(decision, self.why(uid, today), today)

    def record_with(
        self, decision: Decision, whys: Sequence[UnmetReason], today: Fleet
    ) -> DecisionRecord:
        """A decision with its reasons, which `whys` gave."""
        message = decision.over
        if whys and not message:
            message = summary(whys, len(self._ledger.get(decision.generation, today).rows))
            if decision.untried:
                message += "; " + _UNTRIED.format(decision.untried)
        return DecisionRecord(
            uid=decision.uid, verdict=decision.verdict, at=decision.at,
            attempts=decision.attempts, node=decision.node, feasible_nodes=decision.feasible,
            message=message,
            reasons=tuple(
                ReasonRecord(node=w.node, reason=w.reason, message=w.message) for w in whys
            ),
        )  # fmt: skip


_UNTRIED: Final = (
    "{} nodes that may have room were not tried card by card in this attempt: each attempt tries "
    "some of them, until all are tried"
)


def _with_untried(
    whys: Iterator[Sequence[UnmetReason]], fleet: Fleet, untried: int
) -> Iterator[Sequence[UnmetReason]]:
    """Nodes with room are among those that the attempt did not come to."""
    for node, found in zip(sorted(fleet.rows), whys, strict=True):
        none = UnmetReason(
            node=node, reason=Reason.NODE_NOT_TRIED, message=_UNTRIED.format(untried)
        )
        yield found or (none,)


def _not_offered(decision: Decision, fleet: Fleet) -> dict[str, tuple[Reason, str]]:
    if decision.candidates is None:
        return {}
    text = "kube-scheduler left it out before cards were looked at"
    out = np.flatnonzero(~decision.candidates).tolist()
    left = {fleet.names[i]: (Reason.NODE_NOT_SELECTED, text) for i in out if fleet.names[i]}
    for reason, closed in (
        (Reason.NODE_STARTING_EQUAL_POD, decision.starting),
        (Reason.NODE_RESERVED, decision.reserved),
    ):
        left |= {node: (reason, why) for node, why in closed.items() if node in fleet.rows}
    return left
