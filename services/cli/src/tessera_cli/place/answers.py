"""The answers for the pods that wait, in their order; those of a gang at its first pod's turn."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tessera_cli.place.cluster_input import Planned
from tessera_cli.place.near_misses import NodeNearMiss, near_misses, same_refusal
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.planner import Planner
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import PlanOutcome, Verdict

NOT_PLACED = (Verdict.WAITING, Verdict.REJECTED)


class Answers:
    """Collects them; what is placed holds its cards for those that come later."""

    def __init__(self, planner: Planner, gangs: GangPlanner, now_ns: int, *, why: bool) -> None:
        """With `why` pods that are not placed are looked at more closely, at their turn."""
        self.gangs = gangs
        self.outcomes: list[PlanOutcome] = []
        self.closer: dict[int, tuple[NodeNearMiss, ...]] = {}
        """Position of the first of the pods that wait for one reason -> what it met."""
        self.advice: dict[int, str] = {}
        """Position of each pod that is not placed -> what would help."""
        self._planner = planner
        self._now_ns = now_ns
        self._why = why
        self._of_gangs: dict[str, PlanOutcome] = {}

    def add(self, planned: Planned) -> None:
        """The answer for the next pod."""
        outcome = self._of_gang(planned) or self._planner.plan(planned.pod, self._now_ns)
        if self._why and outcome.verdict in NOT_PLACED:
            self._explain(outcome)
        self.outcomes.append(replace(outcome, warnings=(*planned.warnings, *outcome.warnings)))

    def _of_gang(self, planned: Planned) -> PlanOutcome | None:
        uid = planned.pod.metadata.uid
        if uid not in self._of_gangs:
            found: Mapping[str, PlanOutcome] = self.gangs.plan(planned.pod, self._now_ns) or {}
            self._of_gangs.update(found)
        return self._of_gangs.get(uid)

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
