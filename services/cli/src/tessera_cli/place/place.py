"""`tessera place`: plans pods on a cluster as manifests and dumps describe it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_cli.input.manifests import items
from tessera_cli.input.sources import sources
from tessera_cli.place.cluster_input import ClusterInput
from tessera_cli.place.near_misses import NodeNearMiss, near_misses, same_refusal
from tessera_cli.settings import registry
from tessera_cli.text import condensed
from tessera_core.explain.card_holders import ListedNode
from tessera_core.planner import Planner
from tessera_schema.verdicts import PlanOutcome, Verdict

ALL_PLACED: Final = 0
NOT_ALL_PLACED: Final = 2
NOTHING_READ: Final = (
    "nothing was read: none of {} nodes publishes cards in a form that is known, and no pod holds "
    "any: dump nodes and pods with their annotations (kubectl get nodes,pods -A -o json), for "
    "Koordinator also devices.scheduling.koordinator.sh"
)
_WARNINGS_SHOWN: Final = 50
_NOT_PLACED: Final = (Verdict.WAITING, Verdict.REJECTED)


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

    @property
    def status(self) -> int:
        """The command's exit status."""
        short = any(o.verdict in _NOT_PLACED or o.unserved for o in self.outcomes)
        unclear = self.listed is not None and bool(self.listed.warnings)
        return NOT_ALL_PLACED if short or unclear or self.gaps else ALL_PLACED


def place(
    names: Sequence[str],
    *,
    config: str | None = None,
    recursive: bool = False,
    why: bool = False,
    cards: bool = False,
    stdin: BinaryIO,
    notify: Callable[[str], None],
    now_ns: int,
) -> Plan:
    """Read everything, then plan the pods that wait, in the order in which they come.

    `notify` is called with what concerns no planned pod. Raises errors.CommandError.
    """
    world = ClusterInput(registry(config), notify)
    for source in sources(names, recursive=recursive):
        for item in items(source, stdin):
            world.add(item)
    planner = Planner(world.registry, world.cluster())
    listed = _listed(planner) if cards or not world.planned else None
    for line in _notes(world, planner.warnings if listed is None else listed.warnings):
        notify(line)
    outcomes: list[PlanOutcome] = []
    closer: dict[int, tuple[NodeNearMiss, ...]] = {}
    advice: dict[int, str] = {}
    for planned in world.planned:
        outcome = planner.plan(planned.pod, now_ns)
        if why and outcome.verdict in _NOT_PLACED:
            at = len(outcomes)
            alike = _alike(outcome, outcomes, closer)
            if alike is None:
                closer[at] = near_misses(planner, outcome)
            advice[at] = planner.advise(planned.pod) if alike is None else advice[alike]
        outcomes.append(replace(outcome, warnings=(*planned.warnings, *outcome.warnings)))
    for line in _afterwards(world, planner, outcomes, listed):
        notify(line)
    return Plan(outcomes, planner, closer if why else None, advice, listed, world.gaps)


def _afterwards(
    world: ClusterInput, planner: Planner, outcomes: Sequence[PlanOutcome], listed: Listed | None
) -> Iterator[str]:
    """What concerns several pods that wait, a line each."""
    yield from _short_gangs(world, outcomes)
    if listed is None and any(o.verdict is Verdict.WAITING for o in outcomes):
        yield from condensed(planner.listing()[1], _WARNINGS_SHOWN)


def _short_gangs(world: ClusterInput, outcomes: Sequence[PlanOutcome]) -> Iterator[str]:
    """The groups of which too few pods are placed."""
    for gang, members in world.gangs.items():
        placed = sum(outcomes[at].verdict is Verdict.PLACED for at in members)
        if placed < gang.least:
            held = f", and the {placed} hold their cards meanwhile" if placed else ""
            yield (
                f"{gang.where}: {placed} of {len(members)} pods are placed: the others wait, so "
                f"this gang can never start{held}: ask for less, or make room first"
            )


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


def _alike(
    outcome: PlanOutcome, outcomes: Sequence[PlanOutcome], closer: Mapping[int, object]
) -> int | None:
    """Where a pod is that was looked at and waits for the same."""
    return next((at for at in closer if same_refusal(outcome, outcomes[at])), None)
