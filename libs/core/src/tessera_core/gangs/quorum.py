"""Whether enough members of a gang exist, and which of them start together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tessera_core.gangs.gang import GangMember, GangMembers, GangOrigin, MatchPolicy


def missing_members(members: GangMembers) -> str:
    """What the gang lacks before it may start, as `a has 1 of 3 members`; empty for nothing."""
    gang = members.gang
    if not gang.together:
        return ""
    least, roles = still_needed(members)
    counted = counted_already(members)
    exist = len(members.waiting) + counted
    if len(members.waiting) < least:
        back = next(iter(members.barred.items()), None)
        more = f"; {back[0]} cannot be placed: {back[1]}" if back is not None else ""
        return f"{gang.key} has {exist} of {gang.min} members{more}"
    have = Counter(member.role for member in members.waiting)
    for role, number in roles.items():
        if have[role] < number:
            short = gang.roles[role]
            return f"{gang.key} has {have[role] + short - number} of {short} members of role {role}"
    return ""


def counted_already(members: GangMembers) -> int:
    """The members that count for the minimum without starting now."""
    if members.gang.match is MatchPolicy.ARRIVING:
        return 0
    ended = members.succeeded if members.gang.origin is GangOrigin.VOLCANO else 0
    return len(members.bound) + ended


def still_needed(members: GangMembers) -> tuple[int, dict[str, int]]:
    """How many members have to start together now, and of each role how many of them."""
    gang, counted = members.gang, counted_already(members)
    started = gang.match is MatchPolicy.ONCE and counted > 0
    if not gang.together or started or (counted >= gang.min and not gang.roles):
        return 0, {}
    there: Counter[str] = Counter()
    if gang.match is not MatchPolicy.ARRIVING:
        there = Counter(member.role for member in members.bound)
    roles = {role: least - there[role] for role, least in gang.roles.items()}
    roles = {role: least for role, least in roles.items() if least > 0}
    return max(gang.min - counted, sum(roles.values()), 0), roles


def has_minimum(members: GangMembers, more: Iterable[GangMember] = ()) -> bool:
    """Whether as many members are there as the minimum says, of each role too: those that have a
    node or have ended well, and these `more` of those that wait. Other than `still_needed` it does
    not matter whether the gang has started before."""
    gang, there = members.gang, [*members.bound, *more]
    have = Counter(member.role for member in there)
    enough = len(there) + members.succeeded >= gang.min
    return enough and all(have[role] >= least for role, least in gang.roles.items())


def minimum_members(members: GangMembers) -> tuple[GangMember, ...]:
    """The waiting members that start together where not all of them can: those of roles that need
    them, then the first ones (`GangMember.order`)."""
    least, roles = still_needed(members)
    chosen: list[GangMember] = []
    for role, number in roles.items():
        chosen += [member for member in members.waiting if member.role == role][:number]
    taken = {member.pod.metadata.uid for member in chosen}
    rest = (member for member in members.waiting if member.pod.metadata.uid not in taken)
    chosen += list(rest)[: max(least - len(chosen), 0)]
    return tuple(sorted(chosen, key=lambda member: member.order))


def names(members: Iterable[GangMember], shown: int = 3) -> str:
    """The first names, and how many more there are."""
    found: Sequence[str] = [member.pod.metadata.name for member in members]
    more = f" and {len(found) - shown} more" if len(found) > shown else ""
    return ", ".join(found[:shown]) + more
