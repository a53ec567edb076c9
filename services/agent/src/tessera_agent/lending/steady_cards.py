"""Which cards go on as they did when loans were last decided there: nobody who was quiet launches,
or is held back. Such a card is decided upon again after a while; what others do there until then
changes loans a little, and by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.members import LendingMember
from tessera_core.hook.usage_counters import UsageCounters

MOST_STEPS: Final = 4
_NEVER: Final = float("-inf")


class MemberCounters(Protocol):
    """Reads what one container did so far on its card."""

    def counters(self) -> UsageCounters:
        """All that is counted."""
        ...

    def moved(self) -> bool:
        """Whether launches, or the time held back, may be others than at the last `counters`."""
        ...


class _Follower(Struct):
    """One container on a card."""

    read: MemberCounters
    launches: int
    throttled_ns: int
    launched_s: float = _NEVER
    """When it was seen to launch last."""
    held_back_s: float = _NEVER

    @property
    def did_s(self) -> tuple[float, float]:
        """When it did the one and the other, the earlier first."""
        times = self.launched_s, self.held_back_s
        return min(times), max(times)

    def take(self, now: UsageCounters, at_s: float, quiet_s: float) -> bool:
        """Take the counters in; whether it launches, or is held back, after a quiet time."""
        found = False
        if now.launches != self.launches:
            found = at_s - self.launched_s >= quiet_s
            self.launches, self.launched_s = now.launches, at_s
        if now.throttled_ns != self.throttled_ns:
            found |= at_s - self.held_back_s >= quiet_s
            self.throttled_ns, self.held_back_s = now.throttled_ns, at_s
        return found

    def goes_on(self, at_s: float) -> bool:
        """Take the counters in; whether any moved."""
        before = self.launches, self.throttled_ns
        self.take(self.read.counters(), at_s, 0)
        return before != (self.launches, self.throttled_ns)


class _Steady(Struct):
    """One card, since its last decision."""

    members: Sequence[LendingMember]
    reads: Sequence[MemberCounters]
    """Of each of them."""
    check_s: float
    """When those that are busy are examined next."""
    until_s: float
    """Another decision is due then, whatever happens."""
    steps: int
    """How long that is, in times of `SteadyCards`."""
    followers: dict[ContainerKey, _Follower]
    watched: list[tuple[float, _Follower]]
    """From when each is quiet in one way or the other, the earliest first."""
    busy: list[_Follower]
    """Who launches and is held back all the time: nothing is decided upon at once but that it may
    have stopped."""


class SteadyCards:
    """The cards of a node, and what was decided there."""

    def __init__(
        self, again_s: float, counters_of: Callable[[LendingMember], MemberCounters]
    ) -> None:
        """Quiet is who did nothing for `again_s` seconds of a clock that never jumps, as all times
        here are. A decision stands for as long at most, where nothing changes twice as long as the
        one before, up to `MOST_STEPS` times."""
        self._again_s = again_s
        self._counters_of = counters_of
        self._cards: dict[str, _Steady] = {}

    def due(
        self, card: str, members: Sequence[LendingMember], at_s: float
    ) -> Sequence[UsageCounters] | None:
        """None where the last decision stands; else the members' counters that another one is to be
        made of, in their order."""
        steady = self._cards.get(card)
        if steady is None or steady.members is not members:
            return [self._counters_of(member).counters() for member in members]
        if self._stands(steady, at_s):
            return None
        return [read.counters() for read in steady.reads]

    def decided(
        self, card: str, members: Sequence[LendingMember], counters: Sequence[UsageCounters],
        at_s: float, *, same: bool,
    ) -> None:  # fmt: skip
        """Another decision for the card, made of these counters; whether it is the `same` as the
        one before."""
        before, again_s = self._cards.get(card), self._again_s
        known = before.followers if before else {}
        if before is not None and before.members is members:
            reads = before.reads
        else:
            reads = [self._counters_of(member) for member in members]
        followers, watched, busy = {}, [], []
        for member, read, now in zip(members, reads, counters, strict=True):
            follower = known.get(member.key)
            if follower is None:
                follower = _Follower(read, now.launches, now.throttled_ns)
            else:
                follower.read = read
                follower.take(now, at_s, again_s)
            followers[member.key] = follower
            earlier_s, later_s = follower.did_s
            if earlier_s == at_s:
                busy.append(follower)
            else:
                watched.append((earlier_s + again_s, follower))
                same = same and later_s < at_s
        watched.sort(key=_quiet_from)
        steps = min(2 * before.steps, MOST_STEPS) if same and before is not None else 1
        self._cards[card] = _Steady(
            members, reads, at_s + again_s, at_s + steps * again_s, steps, followers, watched, busy
        )

    def keep_only(self, cards: Mapping[str, object]) -> None:
        """Forget all others."""
        for card in self._cards.keys() - cards.keys():
            del self._cards[card]

    def _stands(self, steady: _Steady, at_s: float) -> bool:
        """Whether nobody who was quiet launches, or is held back, or the other way round, and it is
        not too long ago."""
        if at_s >= steady.until_s:
            return False
        stands = True
        for quiet_from, follower in steady.watched:
            if quiet_from > at_s:
                break
            if follower.read.moved():
                stands &= not follower.take(follower.read.counters(), at_s, self._again_s)
        if stands and at_s >= steady.check_s:
            steady.check_s = at_s + self._again_s
            return all(follower.goes_on(at_s) for follower in steady.busy)
        return stands


def _quiet_from(watched: tuple[float, _Follower]) -> float:
    return watched[0]
