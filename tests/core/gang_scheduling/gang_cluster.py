"""A cluster in memory for gangs: an API server's truth, watches that come late, kube-scheduler's
calls, and one scheduler that may end at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from tessera_core.gang_scheduling.answers import GoesAlone, GoesTo, WaitsForGang
from tessera_core.gang_scheduling.attempt import GangTimings
from tessera_core.gang_scheduling.coordinator import GangCoordinator
from tessera_core.gang_scheduling.line_shadows import LineShadows
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle, GangRegistry
from tessera_core.gangs.gang import Gang, GangMember
from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.group_names import ADMISSION_GATE
from tessera_core.gangs.queue_history import HistoryTerms, QueueHistory
from tessera_core.gangs.queue_turns import cluster_totals
from tessera_core.gangs.queues import QueueAmounts, QueueSpec
from tessera_core.gangs.reservation import GangReservation, GangReserved
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.owner_references import owner_of
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.machines.gang import GangPhase
from tessera_core.shadows.expected_ends import PodLifetime, lasts_s
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.slices import Slices, at_once
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod
from tessera_testing.builders import a_card, a_node
from tests.core.gang_scheduling.gang_pods import (
    REGISTRY,
    request_of,
    requested_amounts,
    requests_cards,
)

STEPS = 10_000
HOSTNAME = "kubernetes.io/hostname"


class GangCluster:
    """What is true, and what the scheduler has seen of it."""

    def __init__(
        self,
        cards: dict[str, int],
        groups: Iterable[Gang] = (),
        queues: Iterable[QueueSpec] = (),
        history: HistoryTerms | None = None,
        models: Mapping[str, str] | None = None,
    ) -> None:
        """`cards` of each node, and the `models` of some."""
        self.models = models or {}
        self.specs = tuple(queues)
        self.history = history
        self.now = 1000.0
        self.cards = dict(cards)
        self.pods: dict[str, Pod] = {}
        """Uid -> the pod as the API server has it."""
        self.grants: dict[str, Grant] = {}
        """Of pods that have a node."""
        self.groups = {gang.id: gang for gang in groups}
        self.events: list[Callable[[], None]] = []
        """What watches have not shown yet."""
        self.calling: set[str] = set()
        """Uids of pods whose bind call waits at the barrier."""
        self.unknown: list[tuple[str, Grant]] = []
        """Bindings whose answer was lost, and that may be written yet."""
        self.released: list[str] = []
        """Pods that were let through the barrier, in the order of it."""
        self.errors: dict[str, str] = {}
        self.opening: list[str] = []
        """Uids of pods whose gates are about to be opened."""
        self.opened: list[str] = []
        """Names of pods whose gates were opened, in the order of it."""
        self.requeued = 0
        self.since: dict[str, float] = {}
        """Uid of a pod -> when it got its node."""
        self.start_scheduler()

    # -- the scheduler

    def start_scheduler(self) -> None:
        """Another one takes over: it lists everything, and nothing of the former one is left."""
        self.events, self.calling, self.unknown, self.opening = [], set(), [], []
        self.ledger = Ledger()
        for node in self.cards:
            self._put_node(node)
        self.gangs = GangRegistry(requests_cards)
        self.queues = SchedulingQueues(
            self.gangs, self.ledger, requested_amounts, self._totals,
            None if self.history is None else QueueHistory(self.history),
        )  # fmt: skip
        shadows = LineShadows(self.ledger, self._later, self._running, lambda at: f"{at:g}")
        self.reserved = shadows.reserved
        self.coordinator = GangCoordinator(
            self.gangs, self.ledger, self._room_for, GangTimings(reservation_s=120, barrier_s=60),
            queues=self.queues, shadows=shadows,
        )  # fmt: skip
        for spec in self.specs:
            self.queues.put_queue(spec)
        for gang in self.groups.values():
            self.gangs.put_group(gang)
        at_once(self.gangs.list_pods(list(self.pods.values())))
        for uid, pod in self.pods.items():
            self.ledger.observe(ObservedPod(uid=uid, grant=self.grants.get(pod.metadata.uid)), 0)

    def lose_lease(self) -> None:
        """The replica stops leading, and leads again."""
        self.coordinator.reset("this replica does not lead")
        self.ledger.expire(float("inf"))
        self._settle()

    def step(self) -> None:
        """The scheduler's own loop goes on until it has nothing to do."""
        for _ in range(1000):
            more = self.coordinator.step(self.now, STEPS)
            self._settle()
            if not more:
                return
        raise AssertionError("the search does not end")

    def watch(self, most: int = 1_000_000) -> None:
        """So many events come."""
        for _ in range(min(most, len(self.events))):
            self.events.pop(0)()

    def _totals(self) -> QueueAmounts:
        return cluster_totals(self.ledger.fleet, ())

    def _room_for(self, bundle: GangBundle, members: Sequence[GangMember]) -> GangReservation | str:
        wanted = [MemberRequest(member.pod, request_of(member.pod)) for member in members]
        return GangReservation(self.ledger, self.filters(), wanted)

    def _later(self, bundle: GangBundle, members: Sequence[GangMember]) -> SeatsLaterSearch | str:
        wanted = [MemberRequest(member.pod, request_of(member.pod)) for member in members]
        return SeatsLaterSearch(self.ledger, self.filters(), wanted)

    def _running(self) -> Slices[list[PodLifetime]]:
        yield
        return [
            PodLifetime(pod, self.since[uid], lasts_s(pod), owner_of(pod.metadata))
            for uid, pod in self.pods.items() if uid in self.grants
        ]  # fmt: skip

    def filters(self) -> KubeSchedulerFilters:
        """Nodes with enough of all but cards."""
        nodes = [a_node(name, labels={HOSTNAME: name}) for name in self.cards]
        return KubeSchedulerFilters(nodes, (), REGISTRY.resources)

    # -- the cluster

    def create(self, *pods: Pod) -> None:
        """Pods are created, and shown later."""
        for pod in pods:
            self.pods[pod.metadata.uid] = pod
            self._show(pod)

    def delete(self, uid: str) -> None:
        """A pod is deleted at once."""
        del self.pods[uid]
        self.grants.pop(uid, None)

        def gone() -> None:
            self.ledger.ended(uid)
            self.gangs.drop_pod(uid)

        self.events.append(gone)

    def put_group(self, gang: Gang) -> None:
        """A PodGroup is created or changed."""
        self.groups[gang.id] = gang
        self.events.append(lambda: self.gangs.put_group(gang))

    def lose_node(self, node: str) -> None:
        """A node goes, and the pods on it with it."""
        del self.cards[node]
        for uid in [uid for uid, grant in self.grants.items() if grant.node == node]:
            self.delete(uid)
        self.events.append(lambda: self.ledger.remove_node(node))

    def add_node(self, node: str, cards: int) -> None:
        """A node comes."""
        self.cards[node] = cards
        self.events.append(lambda: self._put_node(node))

    def _put_node(self, node: str) -> None:
        made = [
            a_card(f"{node}-{i}", i, vendor="nvidia", model=self.models.get(node, ""))
            for i in range(self.cards.get(node, 0))
        ]
        self.ledger.put_node(node, made)

    def _show(self, pod: Pod) -> None:
        grant = self.grants.get(pod.metadata.uid)

        def apply() -> None:
            self.ledger.observe(ObservedPod(uid=pod.metadata.uid, grant=grant), self.now)
            self.gangs.put_pod(pod)

        self.events.append(apply)

    # -- kube-scheduler

    def waiting(self) -> list[str]:
        """Pods that kube-scheduler may try."""
        lost = {uid for uid, _ in self.unknown}
        return [
            uid for uid, pod in sorted(self.pods.items())
            if not pod.spec.node_name and uid not in self.calling and uid not in lost
            and not pod.spec.scheduling_gates
        ]  # fmt: skip

    def filter(self, uid: str) -> str:
        """The node that the pod is answered; empty while it waits."""
        alone = not self.gangs.names_gang(self.pods[uid])
        answer = GoesAlone() if alone else self.coordinator.answer(uid, self.now)
        if isinstance(answer, WaitsForGang):
            return ""
        entry = self.ledger.entry(uid)
        if entry is not None:
            return entry.grant.node
        if isinstance(answer, GoesTo):
            assert self.coordinator.phase(self.gangs.gang_of(uid), self.now) in (
                GangPhase.COMMITTED, GangPhase.RESERVED, GangPhase.BINDING,
            )  # fmt: skip
        pod = self.pods[uid]
        if self.queues.problem_of_pod(pod):
            return ""
        wanted = MemberRequest(pod, request_of(pod))
        search = GangReservation(self.ledger, self.filters(), [wanted])
        search.open_reserved(self.reserved.passes(pod, self.now))
        found = search.advance(STEPS, self.now)
        return found.seats[uid].node if isinstance(found, GangReserved) else ""

    def bind(self, uid: str) -> bool:
        """kube-scheduler calls bind; whether the call goes on at once."""
        alone = not self.gangs.names_gang(self.pods[uid])
        error = "" if alone else self.coordinator.arrive(uid, self.now)
        if error is None:
            self.calling.add(uid)
            self._settle()
        elif error:
            self.errors[uid] = error
        else:
            self.send(uid)
        return error == ""

    def try_pod(self, uid: str) -> None:
        """Filter, and bind where there is a node."""
        if self.filter(uid):
            self.bind(uid)

    def restart_kube_scheduler(self) -> None:
        """Its calls end."""
        for uid in self.calling:
            self.coordinator.leave(uid, self.now)
        self.calling = set()

    outcome: Callable[[str], bool | None] = staticmethod(lambda uid: True)
    """What becomes of a pod's Binding: True written, False refused, None not known."""

    def send(self, uid: str) -> None:
        """Send the Binding of a pod that was let through."""
        entry = self.ledger.entry(uid)
        if entry is None or entry.phase is not AllocationPhase.RESERVED:
            return
        self.ledger.binding_sent(uid)
        outcome = self.outcome(uid)
        there = uid in self.pods and entry.grant.node in self.cards
        if outcome is None:
            self.ledger.resolve_binding(uid, bound=None)
            self.unknown.append((uid, entry.grant))
        elif outcome and there:
            self.write(uid, entry.grant)
            self.ledger.resolve_binding(uid, bound=True)
        else:
            self.ledger.resolve_binding(uid, bound=False)
            self.coordinator.leave(uid, self.now)

    def settle_unknown(self, *, written: bool) -> None:
        """The oldest Binding of unknown outcome is settled."""
        uid, grant = self.unknown.pop(0)
        there = uid in self.pods and grant.node in self.cards
        entry = self.ledger.entry(uid)
        if written and there:
            self.write(uid, grant)
        if entry is not None and entry.phase is AllocationPhase.UNSETTLED:
            self.ledger.resolve_binding(uid, bound=written and there)

    def write(self, uid: str, grant: Grant) -> None:
        """The API server takes the Binding."""
        pod = self.pods[uid]
        self.grants[uid], self.since[uid] = grant, self.now
        self.pods[uid] = replace(pod, spec=replace(pod.spec, node_name=grant.node))
        self._show(self.pods[uid])

    def _settle(self) -> None:
        effects = self.coordinator.effects()
        self.requeued += effects.requeue
        self.opening += [
            uid for pod in effects.opened if (uid := pod.metadata.uid) not in self.opening
        ]
        for uid, why in effects.failed.items():
            self.calling.discard(uid)
            self.errors[uid] = why
        for uid in effects.released:
            self.released.append(uid)
        for uid in effects.released:
            if uid in self.calling:
                self.calling.discard(uid)
                self.send(uid)

    def open_gates(self, most: int = 1_000_000) -> None:
        """So many gates are opened; of a pod that is gone, or has none, nothing happens."""
        uids, self.opening = self.opening[:most], self.opening[most:]
        for uid in uids:
            pod = self.pods.get(uid)
            if pod is not None and is_gated(pod):
                gates = tuple(g for g in pod.spec.scheduling_gates if g.name != ADMISSION_GATE)
                self.pods[uid] = replace(pod, spec=replace(pod.spec, scheduling_gates=gates))
                self.opened.append(pod.metadata.name)
                self._show(self.pods[uid])

    # -- what there is

    def phase(self, gang: Gang) -> GangPhase:
        """Where the gang is for the scheduler."""
        return self.coordinator.phase(gang.id, self.now)

    def why(self, gang: Gang) -> str:
        """Why it waits."""
        return self.coordinator.why(gang.id, self.now)

    def bound(self) -> list[str]:
        """Names of pods that have a node."""
        return sorted(pod.metadata.name for pod in self.pods.values() if pod.spec.node_name)

    def uid(self, name: str) -> str:
        """The uid of the pod of that name."""
        return next(uid for uid, pod in self.pods.items() if pod.metadata.name == name)

    def run(self, rounds: int = 4, seconds: float = 1.0) -> None:
        """Everything goes its way for a while: watches, the scheduler, all pods that wait."""
        for _ in range(rounds):
            self.watch()
            self.step()
            self.open_gates()
            for uid in self.waiting():
                self.try_pod(uid)
            self.now += seconds
        self.watch()
        self.step()


def started(cluster: GangCluster, *pods: Iterable[Pod]) -> GangCluster:
    """The cluster after these pods were created, and everything has gone its way."""
    cluster.create(*(pod for some in pods for pod in some))
    cluster.run()
    return cluster
