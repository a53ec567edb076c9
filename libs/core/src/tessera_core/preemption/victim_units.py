"""Pods that are evicted together: a pod by itself, or as much of a gang as makes sense.

Of a gang any members go one by one, as many as there are beyond its minimum. Beyond that it goes
whole, because a gang below its minimum holds cards in vain.
Priorities are those of whole gangs, for those that go as for those that come: a victim that comes
back finds nobody of lower priority than itself where it was, so nobody takes turns for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.gang import (
    Gang,
    GangMembers,
    GangOrigin,
    MatchPolicy,
    PreemptibleMembers,
)
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.slices import Slices
from tessera_schema.annotation_keys import PREEMPTIBLE_KEY
from tessera_schema.kube import Pod

Protection = Callable[[PotentialVictim], str]
"""Why a pod may not go; empty when it may."""
_SURPLUS: Final = "surplus"
_SLICE: Final = 64
"""Pods of one slice: about half a millisecond."""


class VictimUnit(Struct, frozen=True, kw_only=True, gc=False):
    """What goes together, wholly or not at all."""

    pods: tuple[PotentialVictim, ...]
    priority: int
    """Of the pod, or of the gang."""
    gang: str = ""
    """Key of the gang that stops with it; empty for a pod by itself and for a surplus member."""
    surplus_of: str = ""
    """Id of the gang that goes on without it."""
    role: str = ""
    """In that gang."""

    @property
    def name(self) -> str:
        """The pod, or the gang."""
        return f"gang {self.gang}" if self.gang else self.pods[0].pod.name

    @property
    def rank(self) -> tuple[int, float, str]:
        """Which of several goes first where as much is lost: pods of lower priority than the others
        of their gang, then the youngest."""
        priority = max(victim.pod.spec.priority or 0 for victim in self.pods)
        return priority, -max(victim.since for victim in self.pods), self.name


class GangSurplus(Struct, frozen=True):
    """What a gang has beyond its minimum."""

    members: int
    roles: Mapping[str, int]
    """Role -> members of it that may go."""

    def takes(self, gone: Mapping[str, int]) -> bool:
        """Whether so many of each role may go."""
        return sum(gone.values()) <= self.members and all(
            count <= self.roles.get(role, 0) for role, count in gone.items()
        )


def priority_of(pod: Pod, catalog: GangCatalog) -> int:
    """The priority by which a pod evicts and is evicted: its gang's, if it is of one."""
    gang_id = catalog.of_pod.get(pod.metadata.uid)
    if gang_id is None or not catalog.gangs[gang_id].gang.together:
        return pod.spec.priority or 0
    return gang_priority(catalog.gangs[gang_id])


def gang_priority(members: GangMembers) -> int:
    """The gang's own priority, or the highest of its members'."""
    if members.gang.priority is not None:
        return members.gang.priority
    pods = (member.pod.spec.priority or 0 for member in (*members.waiting, *members.bound))
    return max(pods, default=0)


class EvictableUnits(Struct, frozen=True):
    """What of some pods may go."""

    units: tuple[VictimUnit, ...]
    surplus: Mapping[str, GangSurplus]
    """By id of the gang."""
    kept: Counter[str]
    """Why the others may not, with how many of them."""

    def beyond_surplus(self, units: Iterable[VictimUnit]) -> str:
        """The gang of which more members would go one by one than it has beyond its minimum; empty
        where there is none."""
        gone: dict[str, Counter[str]] = {}
        for unit in units:
            if unit.surplus_of:
                gone.setdefault(unit.surplus_of, Counter())[unit.role] += 1
        return next((key for key, roles in gone.items() if not self.surplus[key].takes(roles)), "")


def units_of(
    victims: Iterable[PotentialVictim], catalog: GangCatalog, protection: Protection
) -> Slices[EvictableUnits]:
    """What of these pods may be evicted together; of gangs they are all that are bound. A slice is
    a few pods, or a gang."""
    found: list[VictimUnit] = []
    kept: Counter[str] = Counter()
    surplus: dict[str, GangSurplus] = {}
    of_gangs: dict[str, dict[str, PotentialVictim]] = {}
    for at, victim in enumerate(victims):
        if not at % _SLICE:
            yield
        gang_id = catalog.of_pod.get(victim.uid)
        if gang_id is not None and _goes_as_gang(catalog.gangs[gang_id].gang):
            of_gangs.setdefault(gang_id, {})[victim.uid] = victim
        elif why := protection(victim):
            kept[why] += 1
        else:
            found.append(VictimUnit(pods=(victim,), priority=victim.pod.spec.priority or 0))
    for gang_id, there in of_gangs.items():
        yield
        members = catalog.gangs[gang_id]
        surplus[gang_id] = spare = surplus_of(members, there)
        found += _of_gang(members, there, spare, protection, kept)
    return EvictableUnits(tuple(found), surplus, kept)


def _of_gang(
    members: GangMembers,
    there: Mapping[str, PotentialVictim],
    spare: GangSurplus,
    protection: Protection,
    kept: Counter[str],
) -> Iterator[VictimUnit]:
    """The gang's units; what of it may not go is counted."""
    if members.gang.preemptible is PreemptibleMembers.NONE:
        kept["of a gang that may not be evicted"] += len(there)
        return
    if members.gang.problem:  # its minimum is not known
        kept[f"of a gang that cannot be read ({members.gang.key})"] += len(there)
        return
    why_not = {uid: why for uid, victim in there.items() if (why := protection(victim))}
    if spare.members:
        yield from _one_by_one(members, there, why_not)
    if spare.members >= len(there):
        kept.update(why_not.values())
        return
    hindrance = next(iter(why_not.values()), "") or _stays_whole(members, there)
    if hindrance:
        kept[f"with a member of their gang that stays, one {hindrance}"] += len(there)
        return
    pods, priority = tuple(there.values()), gang_priority(members)
    yield VictimUnit(pods=pods, priority=priority, gang=members.gang.key)


def _goes_as_gang(gang: Gang) -> bool:
    """Whether its members depend on each other, as far as one can say."""
    return gang.together or bool(gang.problem)


def _one_by_one(
    members: GangMembers, there: Mapping[str, PotentialVictim], why_not: Mapping[str, str]
) -> Iterator[VictimUnit]:
    gang, priority = members.gang, gang_priority(members)
    for member in members.bound:
        victim = there.get(member.pod.metadata.uid)
        if victim is not None and victim.uid not in why_not:
            yield VictimUnit(
                pods=(victim,), priority=priority, surplus_of=gang.id, role=member.role
            )


def surplus_of(members: GangMembers, there: Collection[str]) -> GangSurplus:
    """How many members may go by themselves: all of a gang that is broken already, and of one that
    lives on with any number once it has started. `there` are the uids of its bound pods."""
    gang = members.gang
    roles = Counter(each.role for each in members.bound if each.pod.metadata.uid in there)
    if _singly(gang) or len(there) < gang.min:
        return GangSurplus(len(there), roles)
    spare = {role: max(count - gang.roles.get(role, 0), 0) for role, count in roles.items()}
    return GangSurplus(len(there) - gang.min, spare)


def _singly(gang: Gang) -> bool:
    kubernetes = gang.origin is GangOrigin.KUBERNETES  # disruptionMode: single
    return gang.match is MatchPolicy.ONCE or (
        kubernetes and gang.preemptible is PreemptibleMembers.SURPLUS
    )


def _stays_whole(members: GangMembers, there: Mapping[str, PotentialVictim]) -> str:
    """Which pod of the gang keeps it from being evicted whole; empty when none does."""
    metas = [member.pod.metadata for member in members.bound]
    if any(meta.uid not in there and meta.deletion_timestamp is None for meta in metas):
        return "that was not read"
    said = {meta.annotations.get(PREEMPTIBLE_KEY, "").strip().lower() for meta in metas}
    return f"whose owner forbids it ({PREEMPTIBLE_KEY})" if _SURPLUS in said else ""
