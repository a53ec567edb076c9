"""Preemption per card: who would have to go so that a pod or a gang fits, and at what cost.

It decides nothing and changes nothing: it answers from a ledger as it is. Only pods and gangs of
lower priority are named, in the same queue; none that protects itself or that a disruption budget
guards; and none without which there would be room as well. The work is bounded, equal input gives
equal answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.gangs.catalog import GangCatalog, queue_named
from tessera_core.gangs.queue_tree import VOLCANO_DEFAULT
from tessera_core.gangs.queue_usage import ClusterQueues
from tessera_core.gangs.queues import VOLCANO_QUEUE
from tessera_core.gangs.reservation import Seats
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.eviction_costs import EvictionCost, EvictionCosts
from tessera_core.preemption.eviction_trials import (
    EvictionTrials,
    Preemptor,
    QueueKey,
    QueueRoom,
    pods_of,
)
from tessera_core.preemption.node_bounds import NodeBounds
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules, protected
from tessera_core.preemption.victim_search import Forbidden, Trial, VictimSearch, VictimSet
from tessera_core.preemption.victim_units import EvictableUnits, VictimUnit, units_of
from tessera_core.rebalance.disruption_budgets import Disruption, forbidden
from tessera_core.rebalance.slices import Slices, at_once
from tessera_schema.kube import Pod

MOST_NODES: Final = 64
"""Nodes that are tried for one pod, those first that cost least at least."""
EXACT_NODES: Final = 8
"""Nodes among them of which sets of pods are tried in the order of their cost."""
TRIALS_OF_A_NODE: Final = 256
TRIALS_OF_A_POD: Final = 4096
"""At about 0.2 ms each."""
_SLICE: Final = 64
"""Units of one slice."""
TRIALS_OF_A_GANG: Final = 256
"""Searches of a gang's places, at some milliseconds each."""


class Preemption(Struct, frozen=True, kw_only=True):
    """Who would have to go, and where the preemptor would be then."""

    units: tuple[VictimUnit, ...]
    """Empty where pods that are being deleted leave enough room."""
    seats: Seats
    cost: EvictionCost
    card_s: Mapping[str, float] = {}
    """Pod's uid -> card-seconds that are lost with it."""
    exhausted: bool = False
    """The search ended at its bound: there may be a cheaper choice."""

    @property
    def victims(self) -> tuple[PotentialVictim, ...]:
        """The pods of all units, each once."""
        return tuple({each.uid: each for unit in self.units for each in unit.pods}.values())


class NoPreemption(Struct, frozen=True):
    """Nobody would be evicted, and why."""

    message: str


class PreemptionView(Struct, frozen=True, kw_only=True):
    """A cluster as preemption sees it."""

    ledger: Ledger
    filters: KubeSchedulerFilters
    """The nodes as kube-scheduler sees them, with all `bound` pods."""
    bound: Sequence[PotentialVictim]
    """All pods that have a node and have not ended."""
    catalog: GangCatalog
    queues: ClusterQueues | None = None
    """With what is used of them."""
    budgets: Sequence[Disruption] = ()
    rules: PreemptionRules = PreemptionRules()

    def queue_of(self, pod: Pod) -> QueueKey | None:
        """The queue that the pod or its gang names, or that it is in by its namespace. Where no
        queues of the kind are known, Volcano's default one is none."""
        if self.queues is None:
            return None
        gang_id = self.catalog.of_pod.get(pod.metadata.uid)
        if gang_id is None:
            found, named = self.queues.of_pod(pod), queue_named(pod)[0]
        else:
            gang = self.catalog.gangs[gang_id].gang
            found, named = self.queues.of_gang(gang), gang.queue
        if found is None or self.queues.known(found[0]):
            return found
        return found if named and found != (VOLCANO_QUEUE, VOLCANO_DEFAULT) else None


class PreemptionPlanner:
    """Answers for one pod or gang after the other, each as if it were the only one."""

    def __init__(self, view: PreemptionView, now: float) -> None:
        """`now` is Unix time."""
        self._view = view
        self._now = now
        self._costs = EvictionCosts(view.ledger, view.rules, now)
        self._ending = tuple(each.pod for each in view.bound if each.ending)
        self._evictable: EvictableUnits | None = None

    def preempt(self, preemptor: Preemptor) -> Preemption | NoPreemption:
        """Who would have to go for a preemptor that fits nowhere now."""
        return at_once(self.search(preemptor))

    def search(self, preemptor: Preemptor) -> Slices[Preemption | NoPreemption]:
        """The same in slices of some milliseconds at most, during which the view has to stay as it
        is."""
        room = QueueRoom(self._view.ledger, self._view.queues, preemptor)
        evictable = yield from self._units()
        able, kept = yield from self._able(preemptor, evictable)
        yield
        trials = EvictionTrials(
            self._view.ledger, self._view.filters, preemptor, self._ending, room
        )
        if len(preemptor.members) == 1 and preemptor.domains is None:
            member = preemptor.members[0]
            found, exhausted = yield from self._for_pod(member, able, trials, evictable)
        else:
            found, exhausted = yield from self._for_gang(able, trials, evictable)
        if found is None:
            return NoPreemption(_nobody(able, evictable.kept + kept, exhausted=exhausted))
        pods = [victim for unit in found.units for victim in unit.pods]
        return Preemption(
            units=found.units, seats=found.seats, cost=found.cost, exhausted=exhausted,
            card_s={victim.uid: self._costs.of_pod(victim)[0] for victim in pods},
        )  # fmt: skip

    # -- who may go

    def _matters(self, victim: PotentialVictim) -> bool:
        """Whether it holds cards, or may have to go with others of its gang that do."""
        holds = self._view.ledger.entry(victim.uid) is not None
        return holds or victim.uid in self._view.catalog.of_pod

    def _units(self) -> Slices[EvictableUnits]:
        """What of the cluster may go at all; worked out once."""
        if self._evictable is None:
            self._evictable = yield from units_of(
                (each for each in self._view.bound if not each.ending and self._matters(each)),
                self._view.catalog,
                lambda victim: protected(victim, self._view.rules, self._now),
            )
        return self._evictable

    def _able(
        self, preemptor: Preemptor, evictable: EvictableUnits
    ) -> Slices[tuple[list[VictimUnit], Counter[str]]]:
        """The units that may go for the preemptor, and how many pods which reason keeps."""
        able: list[VictimUnit] = []
        kept: Counter[str] = Counter()
        for at, unit in enumerate(evictable.units):
            if not at % _SLICE:
                yield
            why = self._why_not(unit, preemptor, evictable)
            if why:
                kept[why] += len(unit.pods)
            else:
                able.append(unit)
        return able, kept

    def _why_not(self, unit: VictimUnit, preemptor: Preemptor, evictable: EvictableUnits) -> str:
        if unit.priority >= preemptor.priority:
            return "not of lower priority"
        if self._view.queue_of(unit.pods[0].pod) != preemptor.queue:
            return "of another queue"
        guarded = self._forbidden(evictable)((unit,))
        return "guarded by a disruption budget" if guarded else ""

    def _forbidden(self, evictable: EvictableUnits) -> Forbidden:
        budgets = self._view.budgets
        return lambda units: (
            evictable.beyond_surplus(units)
            or (forbidden(budgets, pods_of(units).values()) if budgets else "")
        )

    # -- which of them

    def _for_pod(
        self,
        member: MemberRequest,
        able: Sequence[VictimUnit],
        trials: EvictionTrials,
        evictable: EvictableUnits,
    ) -> Slices[tuple[VictimSet | None, bool]]:
        """The choice on the node where it costs least, and whether a cheaper one may exist."""
        search = VictimSearch(self._costs, self._forbidden(evictable), TRIALS_OF_A_POD)
        if self._ending:
            nodes = yield from trials.nodes_without(())
            idle = self._without_evictions(nodes, trials.on)
            if idle is not None:
                return idle, False
        bounds = NodeBounds(self._view.ledger, self._costs)
        yield from bounds.add(able)
        cards = trials.scratch.cards_with_room(member)
        nodes = yield from trials.nodes_without(able)
        order = yield from bounds.in_order(nodes, member, cards)
        best: VictimSet | None = None
        for bound, node in order[:MOST_NODES]:
            if best is not None and best.cost <= bound:
                break
            best = yield from search.quick(bounds.on[node], trials.on(node), best)
        for bound, node in order[:EXACT_NODES]:
            if best is not None and best.cost <= bound:
                break
            on = bounds.on[node]
            best = yield from search.exact(on, trials.on(node), best, TRIALS_OF_A_NODE)
        rest = order[EXACT_NODES:]
        early = bool(rest) and (best is None or best.cost > rest[0][0])
        return best, search.exhausted or early

    def _for_gang(
        self, able: Sequence[VictimUnit], trials: EvictionTrials, evictable: EvictableUnits
    ) -> Slices[tuple[VictimSet | None, bool]]:
        """The choice on all nodes together, and whether a cheaper one may exist."""
        search = VictimSearch(self._costs, self._forbidden(evictable), TRIALS_OF_A_GANG)
        idle = trials.anywhere(()) if self._ending else None
        if idle is not None:
            return VictimSet((), idle, EvictionCost()), False
        if not able:
            return None, False
        found = yield from search.quick(able, trials.anywhere, None)
        found = yield from search.exact(able, trials.anywhere, found, TRIALS_OF_A_GANG)
        return found, search.exhausted

    def _without_evictions(
        self, nodes: Iterable[str], on: Callable[[str], Trial]
    ) -> VictimSet | None:
        """A place that pods which are being deleted leave by themselves."""
        found = (on(node)(()) for node in nodes)
        seats = next((each for each in found if each is not None), None)
        return None if seats is None else VictimSet((), seats, EvictionCost())


def _nobody(able: Sequence[VictimUnit], kept: Counter[str], *, exhausted: bool) -> str:
    """Why nobody would go, in numbers."""
    reasons = ", ".join(f"{count} {why}" for why, count in kept.most_common())
    others = f"; of the others with cards: {reasons}" if able else f": {reasons}"
    if exhausted:
        return f"as far as the search went, no pods that may go leave enough room{others}"
    if able:
        return f"no room even without the {len(able)} pods or gangs that may go" + (
            others if reasons else ""
        )
    return f"no pod that holds cards may go{others if reasons else ''}"
