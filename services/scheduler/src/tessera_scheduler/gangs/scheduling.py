"""Starts gangs whole: what `tessera_core.gang_scheduling` decides, done for kube-scheduler's calls.

A member that waits is refused by filter. One whose gang holds cards is answered its node, and its
bind call is kept until all of its gang have arrived, or time is up. Nothing of it is durable: a
replica that takes over reads which pods have a node, and reserves the rest of their gangs first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

from tessera_core.admission.exempt_pods import scope_of
from tessera_core.gang_scheduling.answers import WaitsForGang
from tessera_core.gang_scheduling.coordinator import GangCoordinator
from tessera_core.gang_scheduling.gate_openings import somebody_waits
from tessera_core.gang_scheduling.line_shadows import LineShadows
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gang_scheduling.view import QueueView, members_stuck
from tessera_core.gang_scheduling.waiting_lines import waiting_lines
from tessera_core.gangs.catalog import queue_named
from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.reservation import STEPS_OF_A_SLICE
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.slices import Slices, for_each
from tessera_runtime import logs
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch
from tessera_runtime.kube.timestamps import format_time, parse_time
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_scheduler.gangs.cluster_totals import ClusterTotals
from tessera_scheduler.gangs.gates import GateOpener
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_scheduler.gangs.places import GangPlaces
from tessera_scheduler.gangs.pod_groups import pod_group_watches
from tessera_scheduler.gangs.queues import queue_watches
from tessera_scheduler.gangs.settings import GangSettings
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.kube import Pod

IDLE_S: Final = 1.0
"""Seconds between two looks at the time where nothing changes."""
PREPARED_S: Final = 5.0
"""Seconds after which searches see nodes that came or went meanwhile, where they last so long."""
_log = logs.named("tessera.scheduler.gangs")


def open_gangs(
    settings: GangSettings,
    *,
    registry: DialectRegistry,
    ledger: Ledger,
    in_flight: InFlightPods,
    leadership: Leadership,
    clock: MonotonicClock,
    schedulers: Iterable[str],
    gates: GateOpener,
) -> GangScheduling | None:
    """The gangs of a scheduler that serves these profiles; None where pods go one by one."""
    if not settings.on:
        return None
    nodes = GangNodes(registry.resources)
    places = GangPlaces(registry, ledger, nodes, in_flight, scope_of(registry, schedulers))
    return GangScheduling(
        ledger=ledger, places=places, nodes=nodes, leadership=leadership, clock=clock,
        settings=settings, gates=gates,
    )  # fmt: skip


class GangScheduling:
    """The gangs of the cluster, and the bind calls that wait."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        places: GangPlaces,
        nodes: GangNodes,
        leadership: Leadership,
        clock: MonotonicClock,
        settings: GangSettings,
        gates: GateOpener,
    ) -> None:
        """`nodes` are those of `places`."""
        self.registry = GangRegistry(places.requests_cards, places.bar)
        self.history = settings.history
        self.queues = SchedulingQueues(
            self.registry,
            ledger,
            places.requested,
            ClusterTotals(ledger, nodes.all, clock),
            self.history,
        )
        self.shadows = None if not settings.reserves else LineShadows(
            ledger, places.later, nodes.lifetimes, format_time, settings.starve_s
        )  # fmt: skip
        self.coordinator = GangCoordinator(
            self.registry, ledger, places.search, settings.timings,
            room_version=lambda: ledger.generation + nodes.version, queues=self.queues,
            shadows=self.shadows,
        )  # fmt: skip
        self.places, self.nodes = places, nodes
        self._places = places
        self._nodes = nodes
        self.all_nodes = nodes.all
        self._leadership = leadership
        self.clock = self._clock = clock
        self._settings = settings
        self._gates = gates
        self._strays: dict[str, Pod] = {}
        """Uids of pods that have a gate and are in no gang (any more)."""
        self._held_by_queue: dict[str, str] = {}
        """Uids of those of them whose gate stays closed -> why."""
        self._refused_by_queue: set[str] = set()
        """Uids of pods of no gang that filter has refused for their queue."""
        self._somebody_waits = True
        self._calls: dict[str, asyncio.Future[str]] = {}
        """Pod's uid -> its bind call: empty for go on, or the error."""
        self._something = asyncio.Event()
        self._requeue: Callable[[], object] = lambda: None

    def on_requeue(self, requeue: Callable[[], object]) -> None:
        """Call this when kube-scheduler has to try pods again."""
        self._requeue = requeue

    # -- what watches show

    def watches(self, reflectors: ReflectorFactory, selector: str) -> list[Watch]:
        """Watches of PodGroups, and of the nodes that the label selector selects."""
        query = {"labelSelector": selector} if selector else {}
        listed = ListWatch(paths.NODES, self._nodes.read, query)
        nodes = reflectors.make(listed, self._nodes, "nodes of gangs")
        return [
            nodes,
            *pod_group_watches(reflectors, self.registry, self.changed),
            *queue_watches(reflectors, self._places.dialects, self.queues, self._queues_changed),
        ]

    def _queues_changed(self) -> None:
        self.changed()
        self._requeue()

    def changed(self) -> None:
        """The registry has changed."""
        self._something.set()

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods that have not ended."""
        named = [item for item in items if item.member is not None]
        self._gates.only(item.uid for item in named if item.member and is_gated(item.member))
        self._strays = {}
        self._refused_by_queue.clear()
        self.queues.only(item.uid for item in named)
        self._nodes.only(item.uid for item in items if item.node and not item.ended)
        yield
        yield from self.registry.list_pods([item.member for item in named if item.member])
        yield from for_each(items, self._note)
        self.changed()

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        if item.ended:
            self.on_pod_gone(item)
            return
        if item.member is not None and self.registry.names_gang(item.member):
            self.registry.put_pod(item.member)
            self.changed()
        elif self.registry.gang_of(item.uid):  # it names its gang no longer
            self.registry.drop_pod(item.uid)
            self.changed()
        self._note(item)

    def _note(self, item: PodSummary) -> None:
        self._note_queue(item)
        self._note_gate(item)
        if item.node and not item.ended:
            self._nodes.hold(item.uid, item.node, item.host, item.life)

    def _note_queue(self, item: PodSummary) -> None:
        pod = item.member
        if pod is not None and not self.registry.names_gang(pod) and queue_named(pod)[0]:
            self.queues.put_pod(pod)
        elif not self.registry.gang_of(item.uid):
            self.queues.drop_pod(item.uid)

    def _note_gate(self, item: PodSummary) -> None:
        self._strays.pop(item.uid, None)
        pod = item.member
        if pod is None or not is_gated(pod):
            self._gates.forget(item.uid)
        elif not self.registry.gang_of(item.uid):
            self._strays[item.uid] = pod
            self.changed()

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended."""
        succeeded = item.member is not None and item.member.status.phase == "Succeeded"
        self.registry.drop_pod(item.uid, succeeded=succeeded)
        self._strays.pop(item.uid, None)
        self._refused_by_queue.discard(item.uid)
        self._gates.forget(item.uid)
        self.queues.drop_pod(item.uid)
        self._nodes.release(item.uid)
        self.changed()

    # -- kube-scheduler's calls

    def refusal(self, pod: Pod, now: float) -> str:
        """Why a pod waits for its gang or its queue; empty for one that filter may place."""
        if self.registry.names_gang(pod):
            answer = self.coordinator.answer(pod.metadata.uid, now)
            self._apply()
            if isinstance(answer, WaitsForGang):
                return answer.message
        problem = self.queues.problem_of_pod(pod)
        if problem:
            self._refused_by_queue.add(pod.metadata.uid)
        else:
            self._refused_by_queue.discard(pod.metadata.uid)
        return problem

    def passes(self, pod: Pod, now: float) -> frozenset[str]:
        """For which gangs in line the cards are reserved that a pod which goes alone may use."""
        return frozenset() if self.shadows is None else self.shadows.reserved.passes(pod, now)

    def may_use_reserved(self, pod: Pod) -> frozenset[str]:
        """The same of any pod, a member of such a gang among them."""
        mine = "" if self.shadows is None else self.shadows.reserved.key_of(pod.metadata.uid)
        return self.passes(pod, self._clock.time()) | ({mine} if mine else set())

    async def arrive(self, uid: str) -> str:
        """Keep a bind call until all of the pod's gang have arrived; why it does not go on, empty
        when it does. It ends by the coordinator's deadline."""
        if not self.registry.gang_of(uid):
            return ""
        error = self.coordinator.arrive(uid, self._clock.time())
        if error is not None:
            self._apply()
            return error
        former = self._calls.pop(uid, None)
        if former is not None and not former.done():
            former.set_result("kube-scheduler has called again")
        call = self._calls[uid] = asyncio.get_running_loop().create_future()
        self._apply()
        self.changed()
        try:
            error = await call
        except asyncio.CancelledError:
            self.leave(uid)
            raise
        finally:
            if self._calls.get(uid) is call:
                del self._calls[uid]
        return error or self._still(uid)

    def leave(self, uid: str) -> None:
        """The bind call of a pod has ended without a Binding."""
        self.coordinator.leave(uid, self._clock.time())

    def _still(self, uid: str) -> str:
        """Why a pod that was let go on must not: much may have happened before it runs again."""
        answer = self.coordinator.answer(uid, self._clock.time())
        return answer.message if isinstance(answer, WaitsForGang) else ""

    # -- leadership

    async def finish_broken(self) -> None:
        """Reserve what gangs lack that a former leader has started by halves: a replica does it
        before it answers for any other pod."""
        if self.registry.changed:
            await in_slices(self._nodes.prepare())
        while self._step(broken_only=True):  # noqa: ASYNC110  (a slice each)
            await asyncio.sleep(0)
        self.changed()

    def resign(self) -> None:
        """This replica does not lead any more."""
        self.coordinator.reset("this replica does not lead any more: ask again")
        self._apply()

    async def run(self) -> NoReturn:
        """Go on with all gangs, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._something.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(self._settings.gather_s)
            self._something.clear()
            self.queues.record(self._clock.time())
            if self._leadership.leads:
                self._open_strays()
                self._gates.report(self._stuck())
                if self.registry.changed or self._somebody_waits:
                    await in_slices(self._nodes.prepare())
            prepared = self._clock.time()
            while self._leadership.leads and self._step():
                await asyncio.sleep(0)
                if self._clock.time() - prepared >= PREPARED_S:
                    await in_slices(self._nodes.prepare())
                    prepared = self._clock.time()
            self._somebody_waits = somebody_waits(self.coordinator.bundles(), self._clock.time())

    def others_wait(self) -> bool:
        """Whether a gang or a pod waits for room or for its turn, so that new ones come behind it;
        True where this replica does not lead, and cannot know."""
        held = self._held_by_queue or self._refused_by_queue
        return not self._leadership.leads or self._somebody_waits or bool(held)

    def _open_strays(self) -> None:
        through, self._held_by_queue = self.queues.let_through(self._strays.values())
        self._gates.open(through)

    def _stuck(self) -> Iterator[tuple[Pod, str]]:
        bundles, now = self.coordinator.bundles(), self._clock.time()
        return members_stuck(bundles, self.coordinator.reasons(), self.registry, now)

    def view_queues(self) -> tuple[QueueView, ...]:
        """All queues as they stand, with who waits in them, as far as this replica leads."""
        now, coordinator = self._clock.time(), self.coordinator
        lines = waiting_lines(
            coordinator.bundles(), self.queues, coordinator.reasons(), self._held_by_queue,
            lambda pod: parse_time(pod.metadata.creation_timestamp) or now, now,
            {} if self.shadows is None else self.shadows.reserved.expected_starts(),
        )  # fmt: skip
        return self.queues.view(lines, now)

    def queues_led(self) -> tuple[QueueView, ...] | None:
        """The same; None on a replica that does not lead."""
        return self.view_queues() if self._leadership.leads else None

    def why_gated(self, pod: Pod) -> str:
        """Why the gate of a pod is closed, as far as this replica decides it; empty for a pod
        without one."""
        if not is_gated(pod) or not self._leadership.leads:
            return ""
        uid = pod.metadata.uid
        why = self.coordinator.why(self.registry.gang_of(uid), self._clock.time())
        return why or self._held_by_queue.get(uid) or "its scheduling gate is being opened"

    def _step(self, *, broken_only: bool = False) -> bool:
        now = self._clock.time()
        more = self.coordinator.step(now, STEPS_OF_A_SLICE, broken_only=broken_only)
        self._apply()
        return more

    def _apply(self) -> None:
        effects = self.coordinator.effects()
        for uid in effects.released:
            self._answer(uid, "")
        for uid, why in effects.failed.items():
            _log.info("bind call of a member failed", pod=uid, why=why)
            self._answer(uid, why)
        self._gates.open(effects.opened)
        if effects.requeue:
            self._requeue()

    def _answer(self, uid: str, error: str) -> None:
        call = self._calls.get(uid)
        if call is not None and not call.done():
            call.set_result(error)
