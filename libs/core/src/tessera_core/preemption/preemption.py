"""Preemption per card: who would have to go so that a pod or a gang fits, and at what cost.

It decides nothing and changes nothing: it answers from a ledger as it is. Only pods and gangs of
lower priority are named, in the same queue, and, where queues give back what they borrow, those of
any priority in queues that use more than they deserve; none that protects itself or that a
disruption budget guards; and none without which there would be room as well. The work is bounded,
equal input gives equal answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.gangs.catalog import GangCatalog, queue_named
from tessera_core.gangs.queue_lending import QueueLending
from tessera_core.gangs.queue_tree import VOLCANO_DEFAULT
from tessera_core.gangs.queue_usage import ClusterQueues, QueueOfKind
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueOrigin
from tessera_core.gangs.reservation import Seats
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.change_log import ChangePlace
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.card_lines import joined, lines_of
from tessera_core.preemption.eviction_costs import EvictionCost, EvictionCosts
from tessera_core.preemption.eviction_trials import (
    EvictionTrials,
    Preemptor,
    QueueRoom,
    pods_of,
)
from tessera_core.preemption.gang_bounds import GangBounds
from tessera_core.preemption.gang_victims import GangVictims, who_may_go
from tessera_core.preemption.node_bounds import nodes_in_order
from tessera_core.preemption.potential_victims import (
    SYSTEM_PRIORITY,
    PotentialVictim,
    PreemptionRules,
    protected,
)
from tessera_core.preemption.queue_reclaims import QueueReclaims
from tessera_core.preemption.victim_columns import VictimColumns
from tessera_core.preemption.victim_order import in_order
from tessera_core.preemption.victim_search import Forbidden, VictimSearch, VictimSet
from tessera_core.preemption.victim_units import EvictableUnits, VictimUnit, units_of
from tessera_core.rebalance.disruption_budgets import Disruption, forbidden
from tessera_core.slices import Slices, at_once
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
    lenders: Mapping[str, str] = {}
    """Victim's uid -> the queue that gives its cards back; the others go for their priority."""
    kind: QueueOrigin | None = None
    """Of these queues."""
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
    bound: Mapping[str, PotentialVictim]
    """All pods that have a node and have not ended, by uid."""
    bound_at: ChangePlace | None = None
    """How far the log of changed pods was written with these; None where there is no log."""
    catalog: GangCatalog
    queues: ClusterQueues | None = None
    """With what is used of them."""
    lending: QueueLending | None = None
    """Where queues give back what they borrow; None where they do not."""
    budgets: Sequence[Disruption] = ()
    rules: PreemptionRules = PreemptionRules()

    def queue_of(self, pod: Pod) -> QueueOfKind | None:
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

    def __init__(
        self,
        view: PreemptionView,
        now: float,
        *,
        columns: VictimColumns | None = None,
        most_nodes: int = MOST_NODES,
        among_all: bool = False,
    ) -> None:
        """`now` is Unix time. `columns` are those of former answers about the cluster, if there
        were any. With `among_all` gangs find what they find without it, in more time."""
        self._view = view
        self._now = now
        self._columns = VictimColumns(view.rules) if columns is None else columns
        self._most_nodes = most_nodes
        self._all = among_all
        self._of_gangs: EvictableUnits | None = None
        self._costs = EvictionCosts(view.ledger, view.rules, now)
        self._evictable: EvictableUnits | None = None
        self._reclaims: QueueReclaims | None = None

    def preempt(self, preemptor: Preemptor) -> Preemption | NoPreemption:
        """Who would have to go for a preemptor that fits nowhere now."""
        return at_once(self.search(preemptor))

    def search(self, preemptor: Preemptor) -> Slices[Preemption | NoPreemption]:
        """The same in slices of some milliseconds at most, during which the view has to stay as it
        is."""
        view = self._view
        room = QueueRoom(view.ledger, view.queues, preemptor, view.queue_of)
        single = len(preemptor.members) == 1 and preemptor.domains is None
        yield from self._columns.follow(
            view.bound, view.ledger, view.catalog.of_pod, bound_at=view.bound_at
        )
        self._reclaims = self._reclaims_for(preemptor)
        self._costs = self._costs.with_reclaims(self._reclaims)
        trials = self._trials(preemptor, room)
        yield
        work = self._for_pod if single else self._for_gang
        found, exhausted = yield from work(preemptor, trials)
        if found is None:
            evictable = yield from self._units()
            able, kept = yield from self._able(preemptor, evictable)
            return NoPreemption(_nobody(able, evictable.kept + kept, exhausted=exhausted))
        pods = [victim for unit in found.units for victim in unit.pods]
        return Preemption(
            units=found.units, seats=found.seats, cost=found.cost, exhausted=exhausted,
            card_s={victim.uid: self._costs.of_pod(victim)[0] for victim in pods},
            lenders=self._lenders(found.units),
            kind=preemptor.queue[0] if preemptor.queue else None,
        )  # fmt: skip

    def _reclaims_for(self, preemptor: Preemptor) -> QueueReclaims | None:
        view = self._view
        if view.lending is None or preemptor.queue is None:
            return None
        return QueueReclaims(
            view.lending, view.ledger, view.queue_of, preemptor.queue, preemptor.requested,
            members=(member.pod for member in preemptor.members), ending=self._columns.ending,
        )  # fmt: skip

    def _lenders(self, units: Sequence[VictimUnit]) -> dict[str, str]:
        if self._reclaims is None:
            return {}
        return {
            victim.uid: lender
            for unit in units
            if (lender := self._reclaims.lender(unit))
            for victim in unit.pods
        }

    def _trials(self, preemptor: Preemptor, room: QueueRoom) -> EvictionTrials:
        view = self._view
        return EvictionTrials(view.ledger, view.filters, preemptor, self._columns.ending, room)

    # -- who may go

    def _matters(self, victim: PotentialVictim) -> bool:
        """Whether it holds cards, or may have to go with others of its gang that do."""
        holds = self._view.ledger.entry(victim.uid) is not None
        return holds or victim.uid in self._view.catalog.of_pod

    def _units(self) -> Slices[EvictableUnits]:
        """What of the cluster may go at all; worked out once."""
        if self._evictable is None:
            self._evictable = yield from self._units_among(
                each
                for each in self._view.bound.values()
                if not each.ending and self._matters(each)
            )
        return self._evictable

    def _units_of_gangs(self) -> Slices[EvictableUnits]:
        """The same of pods that are in gangs."""
        if self._of_gangs is None:
            bound = self._view.bound
            gangs = (bound[uid] for uid in self._view.catalog.of_pod if uid in bound)
            self._of_gangs = yield from self._units_among(x for x in gangs if not x.ending)
        return self._of_gangs

    def _units_among(self, victims: Iterable[PotentialVictim]) -> Slices[EvictableUnits]:
        return (
            yield from units_of(
                victims, self._view.catalog,
                lambda victim: protected(victim, self._view.rules, self._now),
            )
        )  # fmt: skip

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
        other = self._view.queue_of(unit.pods[0].pod) != preemptor.queue
        if other and self._reclaims is not None:
            stays = self._reclaims.why_not(unit)
            if stays or self._reclaims.forbidden((unit,)):
                return stays or "of a queue that would have too little left"
        elif unit.priority >= preemptor.priority:
            return "not of lower priority"
        elif other:
            return "of another queue"
        guarded = self._forbidden(evictable)((unit,))
        return "guarded by a disruption budget" if guarded else ""

    def _forbidden(self, evictable: EvictableUnits) -> Forbidden:
        budgets, reclaims = self._view.budgets, self._reclaims
        return lambda units: (
            evictable.beyond_surplus(units)
            or (reclaims.forbidden(units) if reclaims else "")
            or (forbidden(budgets, pods_of(units).values()) if budgets else "")
        )

    # -- which of them

    def _searching(self, evictable: EvictableUnits, most_trials: int) -> VictimSearch:
        together = None if self._reclaims is None else self._reclaims.together
        forbidden = self._forbidden(evictable)
        return VictimSearch(self._costs, forbidden, most_trials, together=together)

    def _for_pod(
        self, preemptor: Preemptor, trials: EvictionTrials
    ) -> Slices[tuple[VictimSet | None, bool]]:
        """The choice on the node where it costs least, and whether a cheaper one may exist."""
        member, gangs = preemptor.members[0], (yield from self._units_of_gangs())
        search = self._searching(gangs, TRIALS_OF_A_POD)
        if self._columns.ending:
            idle = yield from _without_evictions(trials)
            if idle is not None:
                return idle, False
        whole, _ = yield from self._able(preemptor, gangs)
        below = preemptor.priority if self._reclaims is None else SYSTEM_PRIORITY
        held = joined((
            self._columns.below(below, self._now),
            lines_of(whole, self._view.ledger, self._costs),
        ))  # fmt: skip
        yield
        order = yield from nodes_in_order(held, trials, member)
        tried: list[tuple[EvictionCost, str, list[VictimUnit]]] = []
        best, rest = None, None
        for bound, node in order:
            if len(tried) == self._most_nodes or (best is not None and best.cost <= bound):
                rest = bound
                break
            on = yield from self._able_on(node, preemptor, gangs, whole)
            if not on or (yield from trials.on(node)(on)) is None:
                continue
            tried.append((bound, node, on))
            best = yield from search.quick(on, trials.on(node), best)
        for bound, node, on in tried[:EXACT_NODES]:
            if best is None or best.cost > bound:
                best = yield from search.exact(on, trials.on(node), best, TRIALS_OF_A_NODE)
        bounds = [bound for bound, _, _ in tried[EXACT_NODES:]] + [rest] * (rest is not None)
        early = any(best is None or best.cost > each for each in bounds if each is not None)
        return best, search.exhausted or early

    def _able_on(
        self,
        node: str,
        preemptor: Preemptor,
        gangs: EvictableUnits,
        whole: Sequence[VictimUnit],
    ) -> Slices[list[VictimUnit]]:
        """The units with cards of the node that may go for the preemptor."""
        there = yield from self._units_among(self._columns.on(node))
        able, _ = yield from self._able(preemptor, there)
        entry = self._view.ledger.entry
        return able + [
            unit for unit in whole
            if any((page := entry(each.uid)) and page.grant.node == node for each in unit.pods)
        ]  # fmt: skip

    def _for_gang(
        self, preemptor: Preemptor, trials: EvictionTrials
    ) -> Slices[tuple[VictimSet | None, bool]]:
        """The choice on all nodes together, and whether a cheaper one may exist."""
        idle = (yield from trials.anywhere(())) if self._columns.ending else None
        if idle is not None:
            return VictimSet((), idle, EvictionCost()), False
        without_cards = any(each.request is None for each in preemptor.members)
        if self._all or self._reclaims is not None or without_cards:
            return (yield from self._among_all(preemptor, trials))
        gangs = yield from self._units_of_gangs()
        units, _ = yield from self._able(preemptor, gangs)
        view, columns, priority = self._view, self._columns, preemptor.priority
        pods = yield from who_may_go(
            columns.singles(priority, self._now), columns,
            lambda pod: view.queue_of(pod) == preemptor.queue, view.budgets,
        )  # fmt: skip
        order = yield from in_order(columns, view.ledger, pods, units, self._costs)
        lines = order.lines(priority, self._now, self._costs)
        yield
        bounds = GangBounds(trials.scratch, preemptor.members, preemptor.domains, lines)
        search = self._searching(gangs, TRIALS_OF_A_GANG)
        found = yield from GangVictims(order, bounds, trials, search).cheapest(TRIALS_OF_A_GANG)
        return found, search.exhausted

    def _among_all(
        self, preemptor: Preemptor, trials: EvictionTrials
    ) -> Slices[tuple[VictimSet | None, bool]]:
        """The same, of units that are made of all pods."""
        evictable = yield from self._units()
        able, _ = yield from self._able(preemptor, evictable)
        if not able:
            return None, False
        search = self._searching(evictable, TRIALS_OF_A_GANG)
        found = yield from search.quick(able, trials.anywhere, None)
        found = yield from search.exact(able, trials.anywhere, found, TRIALS_OF_A_GANG)
        return found, search.exhausted


def _without_evictions(trials: EvictionTrials) -> Slices[VictimSet | None]:
    """A place that pods which are being deleted leave by themselves."""
    for row in trials.room[0].nonzero()[0].tolist():
        yield
        seats = yield from trials.on(trials.scratch.name_of(row))(())
        if seats is not None:
            return VictimSet((), seats, EvictionCost())
    return None


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
