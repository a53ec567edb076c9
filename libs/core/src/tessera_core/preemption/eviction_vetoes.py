"""Which of the pods that kube-scheduler would evict for processor or memory may not go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tessera_core.gangs.gang import GangMembers, PreemptibleMembers
from tessera_core.preemption.potential_victims import (
    PotentialVictim,
    PreemptionRules,
    never_evicted,
)
from tessera_core.preemption.victim_units import gang_priority, surplus_of


def veto(
    victims: Sequence[PotentialVictim],
    gangs: Mapping[str, GangMembers],
    priority: int,
    rules: PreemptionRules,
) -> str:
    """Why these pods may not all go for a pod of this priority; empty when they may. `gangs` are
    those of the pods that are in one, by the pod's uid: a gang of no lower priority is not broken
    up."""
    for victim in victims:
        why = never_evicted(victim, rules)
        if why:
            return f"{victim.pod.name} is a pod {why}"
    uids = {victim.uid for victim in victims}
    for members in {each.gang.id: each for uid, each in gangs.items() if uid in uids}.values():
        gang = members.gang
        if gang.preemptible is PreemptibleMembers.NONE:
            return f"gang {gang.key} may not be evicted"
        if not gang.together or gang_priority(members) < priority:
            continue
        bound = {member.pod.metadata.uid: member.role for member in members.bound}
        gone = Counter(role for uid, role in bound.items() if uid in uids)
        if not surplus_of(members, bound).takes(gone):
            return f"gang {gang.key} of no lower priority would stop"
    return ""
