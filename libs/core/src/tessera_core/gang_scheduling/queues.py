"""Queues as a scheduler follows them: what each uses, whether more may start in it, and whose turn
it is. They change event by event; `tessera_core.gangs.queue_usage` reads a whole cluster at once.

What is used is counted on the ledger, from the moment of a reservation: pods with cards, by what
they have of cards and by what else they request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from tessera_core.gang_scheduling.registry import GangBundle, GangRegistry
from tessera_core.gang_scheduling.view import (
    QueueDemand,
    QueueKey,
    QueueView,
    WaitingGang,
)
from tessera_core.gangs.fair_shares import QueueShare, share_of
from tessera_core.gangs.gang import Gang, GangMember
from tessera_core.gangs.queue_history import QueueHistory
from tessera_core.gangs.queue_lending import QueueLending
from tessera_core.gangs.queue_turns import counted_totals, demands, entitlements
from tessera_core.gangs.queue_usage import ClusterQueues, QueueOfKind, amounts_of, sum_of
from tessera_core.gangs.queues import QueueAmounts, QueueDimension, QueueOrigin, QueueSpec
from tessera_core.ledger.ledger import Ledger
from tessera_schema.kube import Pod

Place = QueueOfKind
ENTITLED_S: Final = 5.0
"""Seconds for which what queues are entitled to by weight is taken as it was worked out, and their
weights as their past leaves them."""
_ALONE: Final = QueueShare(0.0, 0.0)


class SchedulingQueues:
    """The queues of a cluster, of every kind."""

    def __init__(
        self,
        gangs: GangRegistry,
        ledger: Ledger,
        asked: Callable[[Pod], QueueAmounts],
        totals: Callable[[], QueueAmounts],
        history: QueueHistory | None = None,
    ) -> None:
        """`asked` gives what a pod counts at least, `totals` all that the cluster has. `history`
        changes weights by what was used in the past; None = nothing does."""
        self.version = 0
        """Changes whenever another pod may start than before, whatever is used."""
        self._gangs = gangs
        self._ledger = ledger
        self._asked = asked
        self._totals = totals
        self._history = history
        self._recorded_at = -ENTITLED_S
        self._specs: dict[Place, QueueSpec] = {}
        self._described = ClusterQueues(())
        """As objects describe them."""
        self._queues = self._described
        """The same with the weights that their past leaves them."""
        self._pods: dict[str, Pod] = {}
        """Uids of pods that name a queue and no gang."""
        self._places: dict[str, Place | None] = {}
        """Pod's uid -> its queue, of members and of pods that were about to get cards."""
        self._counted: dict[str, tuple[Place, QueueAmounts]] = {}
        self._waiting: dict[str, tuple[Place, QueueAmounts]] = {}
        """What pods without cards wait for, by uid; may name pods that have gone meanwhile."""
        self._changed: set[str] = set()
        """Uids of pods that are to be counted again."""
        self._entitled: tuple[float, int, dict[Place, QueueAmounts]] = (-ENTITLED_S, -1, {})
        ledger.on_change(self._changed.add)

    # -- what watches show

    def list_queues(self, origin: QueueOrigin, specs: Iterable[QueueSpec]) -> None:
        """These are all queues of one kind."""
        listed = {(origin, spec.name): spec for spec in specs}
        others = {place: spec for place, spec in self._specs.items() if place[0] != origin}
        self._take({**others, **listed})

    def put_queue(self, spec: QueueSpec) -> None:
        """A queue as it is now."""
        self._take({**self._specs, (spec.origin, spec.name): spec})

    def drop_queue(self, origin: QueueOrigin, name: str) -> None:
        """A queue was deleted."""
        self._take({place: spec for place, spec in self._specs.items() if place != (origin, name)})

    def spec(self, origin: QueueOrigin, name: str) -> QueueSpec | None:
        """The queue as it is followed."""
        return self._specs.get((origin, name))

    def put_pod(self, pod: Pod) -> None:
        """A pod that names a queue and no gang."""
        uid = pod.metadata.uid
        if self._pods.get(uid) != pod:
            self._pods[uid] = pod
            self._places.pop(uid, None)
            self._changed.add(uid)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone, or has ended, or names a queue no longer."""
        self._places.pop(uid, None)
        if self._pods.pop(uid, None) is not None:
            self._changed.add(uid)

    def only(self, uids: Iterable[str]) -> None:
        """No other pods are there."""
        for uid in {*self._pods, *self._places} - set(uids):
            self.drop_pod(uid)

    def put_bundle(self, bundle: GangBundle) -> None:
        """The members of a bundle are in the queues that their gangs name now."""
        for members in bundle.gangs:
            place = self._queues.of_gang(members.gang)
            for member in (*members.waiting, *members.bound):
                uid = member.pod.metadata.uid
                if uid not in self._places or self._places[uid] != place:
                    self._places[uid] = place
                    self._changed.add(uid)

    def _take(self, specs: dict[Place, QueueSpec]) -> None:
        if specs == self._specs:
            return
        self._specs = specs
        self._described = ClusterQueues(specs.values())
        self._queues = self._weighed()
        self._counted, self._places, self._waiting = {}, {}, {}
        self._changed.update(self._pods)
        self._changed.update(entry.grant.uid for entry in self._ledger.entries())
        self.version += 1
        self._gangs.touch_all()

    # -- what is used

    def record(self, now: float) -> None:
        """Add what is used to what queues have used, and let weights go by it. To be called every
        few seconds, by a replica that does not lead too; without a history it does nothing."""
        if self._history is None or now < self._recorded_at + ENTITLED_S:
            return
        self._recorded_at = now
        queues = self._count()
        used = {place: queues.used(*place) for place in self._specs}
        self._history.record(now, used, self._totals())
        self._queues = self._weighed()

    def _weighed(self) -> ClusterQueues:
        described, history = self._described, self._history
        return described if history is None else described.weighed(history.factors)

    def _count(self) -> ClusterQueues:
        while self._changed:
            uid = self._changed.pop()
            before = self._counted.pop(uid, None)
            if before is not None:
                place, amounts = before
                self._queues.use(*place, {dim: -amount for dim, amount in amounts.items()})
            self._waiting.pop(uid, None)
            pod, entry = self._pod(uid), self._ledger.entry(uid)
            if entry is None:
                there = None if pod is None else self._place(uid, pod, pod.metadata.namespace)
                if pod is not None and there is not None:
                    self._waiting[uid] = there, self._asked(pod)
                continue
            here = self._place(uid, pod, entry.grant.namespace)
            if here is not None:
                counts = amounts_of(pod or Pod(), entry.uses)
                self._queues.use(*here, counts)
                self._counted[uid] = here, counts
        return self._queues

    def _pod(self, uid: str) -> Pod | None:
        return self._pods.get(uid) or self._gangs.pod(uid)

    def _waited_for(self, origin: QueueOrigin) -> dict[str, QueueAmounts]:
        """Name of a queue of this kind -> what its pods without a node wait for."""
        found: dict[str, list[QueueAmounts]] = {}
        for uid, (place, amounts) in tuple(self._waiting.items()):
            pod = self._pod(uid)
            if pod is None or pod.spec.node_name:
                del self._waiting[uid]
            elif place[0] == origin:
                found.setdefault(place[1], []).append(amounts)
        return {name: sum_of(each) for name, each in found.items()}

    def _place(self, uid: str, pod: Pod | None, namespace: str) -> Place | None:
        if uid in self._places:
            return self._places[uid]
        group = self._gangs.group_of(uid)  # a replica that does not lead has no bundles
        if group is not None and group.queue:
            return self._queues.of_gang(group)
        if pod is not None:
            return self._queues.of_pod(pod)
        return self._queues.of_namespace(namespace)

    # -- whether more may start

    def problem(self, bundle: GangBundle, members: Iterable[GangMember]) -> str:
        """Why these members of a bundle may not start together, whatever is free: their queue takes
        no pods, or has a cap that they would exceed together; empty where they may."""
        if not self._specs:
            return ""
        uids = {member.pod.metadata.uid for member in members}
        for each in bundle.gangs:
            place = self._queues.of_gang(each.gang)
            if place is not None:
                mine = (m.pod for m in each.waiting if m.pod.metadata.uid in uids)
                why = self._over(place, sum_of(map(self._asked, mine)))
                if why:
                    return why
        return ""

    def exceeded(self, bundle: GangBundle) -> str:
        """Which cap the queues of a bundle exceed, with what the ledger holds; empty for none."""
        if not self._specs:
            return ""
        for each in bundle.gangs:
            place = self._queues.of_gang(each.gang)
            if place is not None:
                asked = sum_of(self._asked(member.pod) for member in each.waiting)
                over = self._count().exceeded(*place, asked)
                if over:
                    return over
        return ""

    def problem_of_pod(self, pod: Pod) -> str:
        """Why a pod that goes alone may not start in its queue; empty for one that may, or is in
        no queue, or has cards."""
        if not self._specs or self._ledger.entry(pod.metadata.uid) is not None:
            return ""
        uid, namespace = pod.metadata.uid, pod.metadata.namespace or "default"
        place = self._places[uid] if uid in self._places else self._queues.of_pod(pod)
        place = place or self._queues.of_namespace(namespace)
        if place is None:
            return ""
        self._places[uid] = place  # it may get cards before a watch shows it
        return self._over(place, self._asked(pod))

    def let_through(self, gated: Iterable[Pod]) -> tuple[list[Pod], dict[str, str]]:
        """The pods of these, which go alone, whose gates may be opened, and of the others uid and
        why not. Those of higher priority come first, then older ones. What has been let through and
        has no cards yet counts as used: no more gates are opened than the cap has room for."""
        through, held = list[Pod](), dict[str, str]()
        under_way = [
            pod for uid, pod in self._pods.items()
            if not pod.spec.node_name and not pod.spec.scheduling_gates
            and self._ledger.entry(uid) is None
        ]  # fmt: skip
        for pod in sorted(gated, key=_order):
            place = self._queues.of_pod(pod)
            before = [each for each in under_way if self._queues.of_pod(each) == place]
            asked = sum_of(map(self._asked, (*before, pod)))
            why = self._over(place, asked) if place is not None and self._specs else ""
            if why:
                held[pod.metadata.uid] = why
            else:
                through.append(pod)
                under_way.append(pod)
        return through, held

    def _over(self, place: Place, asked: QueueAmounts) -> str:
        queues = self._count()
        return queues.problem(*place) or queues.over(*place, asked)

    # -- whose turn it is

    def share(self, bundle: GangBundle, now: float) -> tuple[int, QueueShare]:
        """What orders the bundle before all but breakage: its queue's priority and share; those of
        a bundle of no queue are 0."""
        place = self.place(bundle)
        spec = None if place is None else self._specs.get(place)
        if place is None or spec is None:
            return 0, _ALONE
        return spec.priority, self._share(place, spec, now)[0]

    def place(self, bundle: GangBundle) -> Place | None:
        """The queue of the bundle's first gang that is in one."""
        if not self._specs:
            return None
        places = (self._queues.of_gang(each.gang) for each in bundle.gangs)
        return next(filter(None, places), None)

    def is_fifo(self, place: Place) -> bool:
        """Whether nobody passes the first one in the queue's line."""
        spec = self._specs.get(place)
        return spec is not None and spec.fifo

    def _share(
        self, place: Place, spec: QueueSpec, now: float
    ) -> tuple[QueueShare, QueueDimension | None]:
        totals = self._counted_totals(place[0])
        deserved = self._deserved(now).get(place, spec.deserved)
        queues = self._count()
        weight = queues.tree(place[0]).queues[spec.name].weight
        share, by = share_of(queues.used(*place), deserved, totals, weight)
        lost = 1 - weight / spec.weight if spec.weight else 0.0
        return replace(share, lost=lost) if lost else share, by

    def _counted_totals(self, origin: QueueOrigin) -> dict[QueueDimension, float]:
        specs = (spec for place, spec in self._specs.items() if place[0] == origin)
        return counted_totals(specs, self._totals())

    def _deserved(self, now: float) -> dict[Place, QueueAmounts]:
        """What queues of trees deserve of which none says it: their parts by weight."""
        at, version, found = self._entitled
        if now < at + ENTITLED_S and version == self.version:
            return found
        origins = {origin for origin, _ in self._specs}
        queues = self._count()
        waits = {origin: self._waited_for(origin) for origin in origins}
        found = queues.deserved(self._totals(), waits)
        self._entitled = now, self.version, found
        return found

    def _wanted(self, origin: QueueOrigin, specs: Iterable[QueueSpec]) -> dict[str, QueueAmounts]:
        """Queue's name -> what its own pods use and wait for."""
        queues, waits = self._count(), self._waited_for(origin)
        return {
            spec.name: sum_of((queues.used(origin, spec.name), waits.get(spec.name, {})))
            for spec in specs
        }

    # -- reading

    def demands(self, origin: QueueOrigin) -> dict[str, QueueDemand]:
        """Name of a queue of the kind -> what it has, asks for and may have of cards. Pods that
        name neither a queue nor a gang count once they have cards."""
        tree = self._queues.tree(origin)
        wanted = self._wanted(origin, tree.queues.values())
        asked = demands(tree, wanted)
        totals = {dim: amount for dim, amount in self._totals().items() if dim.vendor}
        parts = entitlements(tree, totals, wanted)
        return {
            name: QueueDemand(
                used=self._count().used(origin, name, below=True), requested=asked.get(name, {}),
                entitled=parts[name],
            )
            for name in tree.queues
        }  # fmt: skip

    def usage(self) -> ClusterQueues:
        """All queues and what is used of them, apart from what happens later."""
        return self._count().copy()

    def lending(self, now: float) -> QueueLending:
        """What queues lend each other, apart from what happens later."""
        return QueueLending(
            queues=self.usage(), deserved=self._deserved(now), totals=self._totals()
        )

    def place_of(self, gang: Gang) -> Place | None:
        """The queue of a gang, whether anything describes it or not; None for none, and where no
        queues are read."""
        return self._queues.of_gang(gang) if self._specs else None

    def key(self, gang: Gang) -> QueueKey | None:
        """What names the queue of a gang."""
        place = self.place_of(gang)
        return None if place is None else QueueKey(place[0].group, place[1])

    def waiting_pods(self) -> Iterator[tuple[Place, Pod]]:
        """Pods of no gang that name a queue and have neither node nor cards, the next one first."""
        for pod in sorted(self._pods.values(), key=_order):
            if not pod.spec.node_name and self._ledger.entry(pod.metadata.uid) is None:
                place = self._queues.of_pod(pod)
                if place is not None:
                    yield place, pod

    def view(self, waiting: Mapping[Place, list[WaitingGang]], now: float) -> tuple[QueueView, ...]:
        """All queues as they stand, by kind and name."""
        queues, found = self._count(), []
        places = sorted(self._specs, key=lambda place: (place[0].group, place[1]))
        for place in places:
            spec = self._specs[place]
            share, by = self._share(place, spec, now)
            found.append(
                QueueView(
                    key=QueueKey(place[0].group, spec.name), origin=place[0], cap=spec.cap,
                    parent=spec.parent, guarantee=spec.guarantee,
                    deserved=self._deserved(now).get(place, spec.deserved),
                    used=queues.used(*place, below=True), share=share, by=by,
                    problem=queues.problem(*place), waiting=tuple(waiting.get(place, ())),
                )
            )  # fmt: skip
        return tuple(found)


def _order(pod: Pod) -> tuple[object, ...]:
    meta = pod.metadata
    return -(pod.spec.priority or 0), meta.creation_timestamp or "", meta.namespace or "", meta.name
