"""The answers for the pods that wait, in their order; those of a gang at its first pod's turn."""

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
        self.outcomes: list[PlanOutcome] = []
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

    def add(self, planned: Planned) -> None:
        """The answer for the next pod."""
        outcome = self._outcome(planned)
        if self._why and outcome.verdict in NOT_PLACED:
            self._explain(outcome)
        warnings = [*planned.warnings, *outcome.warnings]
        if self._preemptions is not None and outcome.verdict is Verdict.WAITING:
            warnings += self._preemptions.warnings(outcome)
            with self._shadows.opened_for(outcome.pod):
                self._preempt(self._preemptions, outcome)
        self.outcomes.append(replace(outcome, warnings=tuple(warnings)))

    def _outcome(self, planned: Planned) -> PlanOutcome:
        """Those of a gang are answered with its first pod."""
        uid = planned.pod.metadata.uid
        if uid not in self._planned:
            self._planned.update(self._shadows.plan(planned.pod, self._now_ns))
        return self._planned.pop(uid)

    def _preempt(self, preemptions: Preemptions, outcome: PlanOutcome) -> None:
        gang = self.gangs.catalog.of_pod.get(outcome.pod.metadata.uid)
        if gang is None:
            answer = preemptions.of_pod(outcome)
            if answer is not None:
                self.preemptions[len(self.outcomes)] = answer
        elif gang not in self.gang_preemptions:
            of_gang = preemptions.of_gang(gang)
            if of_gang is not None:
                self.gang_preemptions[gang] = of_gang

    def _explain(self, outcome: PlanOutcome) -> None:
        at = len(self.outcomes)
        alike = next((n for n in self.closer if same_refusal(outcome, self.outcomes[n])), None)
        if alike is None:
            self.closer[at] = near_misses(self._planner, outcome)
        self.advice[at] = self._advice(outcome) if alike is None else self.advice[alike]

    def _advice(self, outcome: PlanOutcome) -> str:
        if any(why.reason is Reason.GANG_WAITING for why in outcome.reasons):
            gang = self.gangs.catalog.of_pod[outcome.pod.metadata.uid]
            return self.gangs.outcomes[gang].remedy if gang in self.gangs.outcomes else ""
        return self._planner.advise(outcome.pod)
