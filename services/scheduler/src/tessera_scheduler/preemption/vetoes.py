"""Answers which of kube-scheduler's own victims may not go."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.gangs.gang import GangMembers
from tessera_core.preemption.eviction_vetoes import veto
from tessera_core.preemption.potential_victims import PreemptionRules
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.running_pods import RunningPods
from tessera_schema.kube import Pod


class EvictionVetoes:
    """Of pods that hold cards, and of gangs where gangs start whole."""

    def __init__(
        self, pods: RunningPods, gangs: GangScheduling | None, rules: PreemptionRules
    ) -> None:
        self._pods = pods
        self._gangs = gangs
        self._rules = rules

    def veto(self, pod: Pod, uids: Sequence[str]) -> str:
        """Why these may not all go for the pod; empty when they may, as far as is known."""
        found = (self._pods.get(uid) for uid in uids)
        victims = [victim for victim in found if victim is not None]
        return veto(victims, self._gangs_of(uids), pod.spec.priority or 0, self._rules)

    def _gangs_of(self, uids: Sequence[str]) -> dict[str, GangMembers]:
        if self._gangs is None:
            return {}
        found: dict[str, GangMembers] = {}
        registry = self._gangs.registry
        for uid in uids:
            gang_id = registry.gang_of(uid)
            for members in registry.bundle(gang_id).gangs if gang_id else ():
                if members.gang.id == gang_id:
                    found[uid] = members
        return found
