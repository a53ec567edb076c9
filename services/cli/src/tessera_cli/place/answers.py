"""The answers for the pods that wait, in their order; those of a gang at its first pod's turn, and
its members beyond the minimum once no other gang waits for its own."""

from __future__ import annotations

from msgspec.structs import replace

from tessera_cli.place.cluster_input import Planned
from tessera_cli.place.near_misses import NodeNearMiss, near_misses, same_refusal
from tessera_cli.place.preemption.preemptions import PreemptionAnswer, Preemptions
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.gang_planner.shadow_planner import ShadowPlanner
from tessera_core.planner import Planner
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import PlanOutcome, Verdict

NOT_PLACED = (Verdict.WAITING, Verdict.REJECTED)


class Answers:
    """Collects them; what is placed holds its cards for those that come later."""

    def __init__(
        self,
        planner: Planner,
        gangs: GangPlanner,
        shadows: ShadowPlanner,
        now_ns: int,
        *,
        why: bool,
        preemptions: Preemptions | None = None,
    ) -> None:
        """`shadows` plan with the other two. With `why` pods that are not placed are looked at more
        closely, at their turn; with `preemptions` those that wait are asked for who would have to
        go."""
        self.gangs = gangs
        self._answered: dict[int, PlanOutcome] = {}
        """By position."""
        self._later: dict[str, tuple[int, Planned]] = {}
        """Uids of pods that wait for their turn, with their position."""
        self.closer: dict[int, tuple[NodeNearMiss, ...]] = {}
        """Position of the first of the pods that wait for one reason -> what it met."""
        self.advice: dict[int, str] = {}
        """Position of each pod that is not placed -> what would help."""
        self.preemptions: dict[int, PreemptionAnswer] = {}
        """Position of a pod of no gang that waits for room -> who would have to go."""
        self.gang_preemptions: dict[str, PreemptionAnswer] = {}
        """Gang's id -> the same."""
        self._planner = planner
        self._shadows = shadows
        self._now_ns = now_ns
        self._why = why
        self._preemptions = preemptions
        self._planned: dict[str, PlanOutcome] = {}

    @property
    def outcomes(self) -> list[PlanOutcome]:
        """In the order of the pods, once all have been added and `finish` is done."""
        return [self._answered[at] for at in range(len(self._answered))]

    def add(self, planned: Planned) -> None:
        """Answer for the next pod, if it does not wait for its turn."""
        at, uid = len(self._answered) + len(self._later), planned.pod.metadata.uid
        if uid not in self._planned:  # those of a gang are answered with its first pod
            self._planned.update(self._shadows.plan(planned.pod, self._now_ns))
        outcome = self._planned.pop(uid, None)
        if outcome is None:
            self._later[uid] = at, planned
        else:
            self._answer(at, planned, outcome)

    def finish(self) -> None:
        """Answer for those that waited for their turn, once all pods have been added."""
        while (outcome := self._shadows.grow(self._now_ns)) is not None:
            self._answer(*self._later.pop(outcome.pod.metadata.uid), outcome)

    def _answer(self, at: int, planned: Planned, outcome: PlanOutcome) -> None:
        if self._why and outcome.verdict in NOT_PLACED:
            self._explain(at, outcome)
        warnings = [*planned.warnings, *outcome.warnings]
        if self._preemptions is not None and outcome.verdict is Verdict.WAITING:
            warnings += self._preemptions.warnings(outcome)
            with self._shadows.opened_for(outcome.pod):
                self._preempt(self._preemptions, at, outcome)
        self._answered[at] = replace(outcome, warnings=tuple(warnings))

    def _preempt(self, preemptions: Preemptions, at: int, outcome: PlanOutcome) -> None:
        gang = self.gangs.catalog.of_pod.get(outcome.pod.metadata.uid)
        if gang is None:
            answer = preemptions.of_pod(outcome)
            if answer is not None:
                self.preemptions[at] = answer
        elif gang not in self.gang_preemptions:
            of_gang = preemptions.of_gang(gang)
            if of_gang is not None:
                self.gang_preemptions[gang] = of_gang

    def _explain(self, at: int, outcome: PlanOutcome) -> None:
        alike = next((n for n in self.closer if same_refusal(outcome, self._answered[n])), None)
        if alike is None:
            self.closer[at] = near_misses(self._planner, outcome)
        self.advice[at] = self._advice(outcome) if alike is None else self.advice[alike]

    def _advice(self, outcome: PlanOutcome) -> str:
        if any(why.reason is Reason.GANG_WAITING for why in outcome.reasons):
            gang = self.gangs.catalog.of_pod[outcome.pod.metadata.uid]
            return self.gangs.outcomes[gang].remedy if gang in self.gangs.outcomes else ""
        return self._planner.advise(outcome.pod)
