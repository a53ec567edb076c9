"""What evicting pods costs, as something to compare: less is better, field by field.

No field of a set is less than the same field of a part of it, so a search in the order of costs
finds the cheapest set first.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from math import fsum
from typing import Final

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules, lost_s
from tessera_core.preemption.queue_reclaims import QueueReclaims
from tessera_core.preemption.victim_units import VictimUnit

LOWEST_PRIORITY: Final = -(2**31)
"""That of no pod: priorities are numbers of 32 bits."""


class EvictionCost(Struct, frozen=True, order=True, gc=False):
    """The cost of a set of victims; the first field that differs decides."""

    slow: int = 0
    """Victims that may take longer to end than the rules like."""
    by_priority: int = 0
    """Where queues give back what they borrow, 1 with a victim that goes for its priority alone."""
    levelled: float = 0
    """How far below the largest share of the tree a queue comes that gives back."""
    priority: int = LOWEST_PRIORITY
    """The highest among them."""
    gangs: int = 0
    """Gangs that stop."""
    card_s: float = 0
    """Card-seconds of work that are lost; a part of a card counts as that part."""
    pods: int = 0
    cards: float = 0
    """Cards that come free."""


CostKey = tuple[EvictionCost, tuple[int, float, str]]
"""By what units are put in order: the cost of one by itself, then its rank."""


class EvictionCosts:
    """Works out costs, of each pod once."""

    def __init__(self, ledger: Ledger, rules: PreemptionRules, now: float) -> None:
        """As the ledger is now; `now` is Unix time."""
        self._ledger = ledger
        self._rules = rules
        self._now = now
        self._of: dict[str, tuple[float, float]] = {}
        self._reclaims: QueueReclaims | None = None

    def with_reclaims(self, reclaims: QueueReclaims | None) -> EvictionCosts:
        """The same, where queues give back for a preemptor."""
        made = copy(self)  # what pods cost is worked out once
        made._reclaims = reclaims
        return made

    def of(self, units: Iterable[VictimUnit]) -> EvictionCost:
        """Of all of them together; a pod that is in several counts once."""
        units = tuple(units)
        pods = {victim.uid: victim for unit in units for victim in unit.pods}
        each = [self.of_pod(victim) for victim in pods.values()]
        by_priority, levelled = self._reclaims.cost(units) if self._reclaims else (0, 0.0)
        return EvictionCost(
            slow=sum(victim.grace_s > self._rules.most_grace_s for victim in pods.values()),
            by_priority=by_priority, levelled=levelled,
            priority=max((unit.priority for unit in units), default=LOWEST_PRIORITY),
            gangs=len({unit.gang for unit in units if unit.gang}),
            card_s=fsum(card_s for card_s, _ in each),
            pods=len(pods),
            cards=fsum(cards for _, cards in each),
        )  # fmt: skip

    def key(self, unit: VictimUnit) -> CostKey:
        """The unit's place in the order of costs."""
        return self.of((unit,)), unit.rank

    def on_cards(self, units: Iterable[VictimUnit]) -> dict[str, float]:
        """Name of a unit -> card-seconds that are lost with all of these units that hold parts of
        the same cards."""
        lost: dict[tuple[str, str], float] = {}
        cards: dict[str, set[tuple[str, str]]] = {}
        for unit in units:
            entries = (self._ledger.entry(victim.uid) for victim in unit.pods)
            own = {(entry.grant.node, card) for entry in entries if entry for card in entry.charges}
            cards[unit.name] = own
            for card in own:
                lost[card] = lost.get(card, 0) + self.of((unit,)).card_s / len(own)
        return {name: fsum(lost[card] for card in own) for name, own in cards.items()}

    def of_pod(self, victim: PotentialVictim) -> tuple[float, float]:
        """Card-seconds that are lost with the pod, and cards that it holds."""
        if victim.uid not in self._of:
            entry = self._ledger.entry(victim.uid)
            cards = sum(use.parts for use in entry.uses.values()) if entry is not None else 0.0
            self._of[victim.uid] = cards * lost_s(victim, self._rules, self._now), cards
        return self._of[victim.uid]
