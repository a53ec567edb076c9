"""Why every pod got the answer it got: kept per pod, bounded, rendered when asked.

A record of a pod that waits keeps the books it was judged by. Pods judged under one ledger
generation share that copy, so that a thousand equal pods cost one; when there are too many
copies the oldest records lose theirs and are explained from today's books.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.cards import Bools
from tessera_core.explain import explain, summary
from tessera_core.fleet import Fleet
from tessera_core.outcome import Verdict, Why
from tessera_core.quota import Allowance
from tessera_core.units import units
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

MAX_RECORDS: Final = 20_000
MAX_COPIES: Final = 16
"""A copy of 5,000 nodes x 8 cards takes about 4 MB."""


class Decision(Struct, kw_only=True):
    """One pod's latest answer."""

    request: PodRequest
    verdict: Verdict
    at: float
    """Seconds of the caller's clock."""
    generation: int
    """The ledger's, when it was decided."""
    attempts: int = 1
    node: str = ""
    feasible: int = 0
    """Nodes that had room."""
    message: str = ""
    books: Fleet | None = None
    allowance: Allowance | None = None
    candidates: Bools | None = None


class Decisions:
    """The latest decision of each pod."""

    def __init__(self) -> None:
        """No records."""
        self._records: dict[str, Decision] = {}
        self._copies: dict[int, Fleet] = {}

    def get(self, uid: str) -> Decision | None:
        """The pod's record."""
        return self._records.get(uid)

    def keep(self, decision: Decision) -> None:
        """Record a decision, replacing the pod's former one."""
        former = self._records.pop(decision.request.uid, None)
        if former is not None:
            decision.attempts = former.attempts + 1
        self._records[decision.request.uid] = decision
        while len(self._records) > MAX_RECORDS:
            del self._records[next(iter(self._records))]

    def books(self, fleet: Fleet, generation: int) -> Fleet:
        """The copy of the books of a generation, made once."""
        if generation not in self._copies:
            self._copies[generation] = fleet.snapshot()
            while len(self._copies) > MAX_COPIES:
                self._drop(next(iter(self._copies)))
        return self._copies[generation]

    def why(self, uid: str, today: Fleet) -> tuple[Why, ...]:
        """Why the pod waits, node by node in numbers; nothing for a pod that does not wait."""
        decision = self._records.get(uid)
        if decision is None or decision.verdict is not Verdict.WAITING:
            return ()
        if decision.message and decision.allowance is None:
            return (Why(reason=Reason.RESOURCE_QUOTA_NOT_FIT, message=decision.message),)
        fleet = decision.books or today
        allowance = decision.allowance or Allowance((), {})
        return explain(fleet, units(decision.request), allowance, _not_asked(decision, fleet))

    def line(self, uid: str, today: Fleet) -> str:
        """The same in one line."""
        return summary(self.why(uid, today), len(today.rows))

    def _drop(self, generation: int) -> None:
        copy = self._copies.pop(generation)
        for decision in self._records.values():
            if decision.books is copy:
                decision.books, decision.candidates = None, None


def _not_asked(decision: Decision, fleet: Fleet) -> dict[str, tuple[Reason, str]]:
    if decision.candidates is None:
        return {}
    out = np.flatnonzero(~decision.candidates).tolist()
    text = "kube-scheduler left it out before cards were looked at"
    return {fleet.names[i]: (Reason.NODE_NOT_SELECTED, text) for i in out if fleet.names[i]}
