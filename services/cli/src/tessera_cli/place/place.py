"""`tessera place`: plans pods on a cluster as manifests and dumps describe it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from msgspec import Struct

from tessera_cli.input.manifests import items
from tessera_cli.input.sources import sources
from tessera_cli.place.answers import NOT_PLACED, Answers
from tessera_cli.place.cluster_input import ClusterInput
from tessera_cli.place.near_misses import NodeNearMiss
from tessera_cli.place.preemption.objects import PreemptionObjects
from tessera_cli.place.preemption.preemptions import PreemptionAnswer, Preemptions
from tessera_cli.settings import registry
from tessera_cli.text import condensed
from tessera_core.explain.card_holders import ListedNode
from tessera_core.gang_planner.answers import GangOutcome
from tessera_core.gang_planner.shadow_planner import ShadowPlanner
from tessera_core.gangs.queue_turns import QueueTurn
from tessera_core.planner import Planner
from tessera_core.shadows.expected_ends import PodLifetime, lasts_s
from tessera_core.shadows.shadow import Shadow
from tessera_runtime.kube.timestamps import format_time, parse_time
from tessera_schema.kube import Pod
from tessera_schema.verdicts import PlanOutcome, Verdict

ALL_PLACED: Final = 0
NOT_ALL_PLACED: Final = 2
NOTHING_READ: Final = (
    "nothing was read: none of {} nodes publishes cards in a form that is known, and no pod holds "
    "any: dump nodes and pods with their annotations (kubectl get nodes,pods -A -o json), for "
    "Koordinator also devices.scheduling.koordinator.sh"
)
GANGS_ARE_PLANNED_ONLY: Final = (
    "gangs are planned whole here; the scheduler of this release still places their pods one by one"
)
_WARNINGS_SHOWN: Final = 50


class Listed(Struct, frozen=True):
    """Cards and holders as they were read, and what is not clear about them."""

    nodes: tuple[ListedNode, ...]
    warnings: tuple[str, ...]


class Plan(Struct, frozen=True):
    """The answer for every pod, and the ledger that it left."""

    outcomes: Sequence[PlanOutcome]
    planner: Planner
    closer: Mapping[int, tuple[NodeNearMiss, ...]] | None
    """With `why`: position of the first of the pods that wait for one reason -> what it met."""
    advice: Mapping[int, str]
    """Position of each pod that is not placed -> what would help; empty without `why`."""
    listed: Listed | None
    """With `cards`, or where no pod waits: who held what before the first pod was planned."""

    gaps: Sequence[str] = ()
    """What the plan lacks; reported already."""
    gangs: Sequence[GangOutcome] = ()
    turns: Sequence[QueueTurn] = ()
    """Queues in the order in which they would be served."""
    preemptions: Mapping[int, PreemptionAnswer] | None = None
    """With `preempt`: position of a pod of no gang that waits for room -> who would have to go."""
    gang_preemptions: Mapping[str, PreemptionAnswer] = {}
    """Id of a gang that waits for room -> the same."""
    shadows: Sequence[Shadow] = ()
    """What those will get that wait for room, where it is known when."""

    @property
    def status(self) -> int:
        """The command's exit status."""
        short = any(o.verdict in NOT_PLACED or o.unserved for o in self.outcomes)
        unclear = self.listed is not None and bool(self.listed.warnings)
        return NOT_ALL_PLACED if short or unclear or self.gaps else ALL_PLACED


def place(  # noqa: PLR0913  (keyword-only: each is an option of the command)
    names: Sequence[str],
    *,
    config: str | None = None,
    recursive: bool = False,
    why: bool = False,
    cards: bool = False,
    preempt: bool = False,
    reclaim: bool = False,
    stdin: BinaryIO,
    notify: Callable[[str], None],
    now_ns: int,
) -> Plan:
    """Read everything, then plan the pods that wait, in the order in which they come.

    `notify` is called with what concerns no planned pod. Raises errors.CommandError.
    """
    objects = PreemptionObjects() if preempt or reclaim else None
    world = ClusterInput(registry(config), notify, objects)
    for source in sources(names, recursive=recursive):
        for item in items(source, stdin):
            world.add(item)
    cluster = world.cluster()
    planner = Planner(world.registry, cluster)
    gangs = world.gangs.planner(planner, cluster)
    listed = _listed(planner) if cards or not world.planned else None
    for line in _notes(world, planner.warnings if listed is None else listed.warnings):
        notify(line)
    preemptions = None
    if objects is not None:
        lending = gangs.lending(each.pod for each in world.planned) if reclaim else None
        preemptions = Preemptions(
            planner, gangs, objects, cluster.bound, now_ns, lending=lending
        )  # fmt: skip
    now = now_ns / 1e9
    running = (_running(pod, now) for pod in cluster.bound)
    shadows = ShadowPlanner(planner, gangs, running, now, format_time)
    answers = Answers(planner, gangs, shadows, now_ns, why=why, preemptions=preemptions)
    for planned in world.planned:
        answers.add(planned)
    answers.finish()
    for line in _afterwards(answers, planner, listed):
        notify(line)
    return Plan(
        answers.outcomes, planner, answers.closer if why else None, answers.advice, listed,
        world.gaps, tuple(gangs.outcomes.values()), gangs.turns,
        None if objects is None else answers.preemptions, answers.gang_preemptions, shadows.shadows,
    )  # fmt: skip


def _afterwards(answers: Answers, planner: Planner, listed: Listed | None) -> Iterator[str]:
    """What concerns several pods, a line each."""
    yield from condensed(answers.gangs.warnings(), _WARNINGS_SHOWN)
    if answers.gangs.outcomes:
        yield GANGS_ARE_PLANNED_ONLY
    if listed is None and any(o.verdict is Verdict.WAITING for o in answers.outcomes):
        yield from condensed(planner.listing()[1], _WARNINGS_SHOWN)


def _running(pod: Pod, now: float) -> PodLifetime:
    """A bound pod; one that does not say when it started has started now."""
    said = (pod.status.start_time, pod.metadata.creation_timestamp)
    since = next((at for at in map(parse_time, said) if at is not None), now)
    return PodLifetime(pod, since, lasts_s(pod))


def _listed(planner: Planner) -> Listed:
    nodes, unpublished = planner.listing()
    warnings = (*planner.warnings, *unpublished, *planner.refused_again())
    if not any(node.cards or node.lost for node in nodes):
        warnings = (*warnings, NOTHING_READ.format(len(nodes)))
    return Listed(nodes, warnings)


def _notes(world: ClusterInput, warnings: Iterable[str]) -> Iterator[str]:
    """What concerns no planned pod, a line each."""
    yield from world.gaps[:_WARNINGS_SHOWN]
    if len(world.gaps) > _WARNINGS_SHOWN:
        yield f"and {len(world.gaps) - _WARNINGS_SHOWN} more of this kind"
    yield from condensed(warnings, _WARNINGS_SHOWN)
    if not world.planned:
        yield "no pod waits for a place: nothing to plan"
