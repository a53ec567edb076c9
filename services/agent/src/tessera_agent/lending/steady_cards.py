"""Which cards go on as they did when loans were last decided there: nobody who was quiet launches,
or is held back. Such a card is decided upon again after a while; what others do there until then
changes loans a little, and by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.members import LendingMember
from tessera_core.hook.usage_counters import UsageCounters
from tessera_core.node.core_lending import LendingDecision

Read = Callable[[LendingMember], UsageCounters]
"""Reads what a container did so far on its card."""


class _Follower(Struct):
    """One container on a card."""

    launches: int
    throttled_ns: int
    launched_s: float = float("-inf")
    """When it was seen to launch last."""
    held_back_s: float = float("-inf")

    def may_stir(self, at_s: float, quiet_s: float) -> bool:
        """Whether it was quiet in one way or the other. One that launches and is held back all the
        time does nothing that is decided upon at once, so its counters need not be read."""
        return at_s - min(self.launched_s, self.held_back_s) >= quiet_s

    def stirs(self, now: UsageCounters, at_s: float, quiet_s: float) -> bool:
        """Take the counters in; whether it launches, or is held back, after a quiet time."""
        found = False
        if now.launches != self.launches:
            found = at_s - self.launched_s >= quiet_s
            self.launches, self.launched_s = now.launches, at_s
        if now.throttled_ns != self.throttled_ns:
            found |= at_s - self.held_back_s >= quiet_s
            self.throttled_ns, self.held_back_s = now.throttled_ns, at_s
        return found


class _Steady(Struct):
    """One card."""

    members: Sequence[LendingMember] = ()
    decision: LendingDecision | None = None
    at_s: float = 0.0
    followers: dict[ContainerKey, _Follower] = {}


class SteadyCards:
    """The cards of a node, and what was decided there."""

    def __init__(self, again_s: float) -> None:
        """A decision stands for `again_s` seconds at most; quiet is who did nothing for as long."""
        self._again_s = again_s
        self._cards: dict[str, _Steady] = {}

    def standing(
        self, card: str, members: Sequence[LendingMember], read: Read, at_s: float
    ) -> LendingDecision | Sequence[UsageCounters]:
        """The last decision where it stands; where another one is due, the members' counters that
        it is to be made of, in their order. `read` reads them at `at_s`, which is of a clock that
        never jumps."""
        steady, quiet_s = self._cards.setdefault(card, _Steady()), self._again_s
        counters: dict[ContainerKey, UsageCounters] = {}
        if steady.decision is None or members is not steady.members:
            stirs = True
        else:
            stirs = at_s - steady.at_s >= quiet_s
        for member in members:
            follower = steady.followers.get(member.key)
            if follower is None:
                now = counters[member.key] = read(member)
                steady.followers[member.key] = _Follower(now.launches, now.throttled_ns)
                stirs = True
            elif stirs or follower.may_stir(at_s, quiet_s):
                now = counters[member.key] = read(member)
                stirs |= follower.stirs(now, at_s, quiet_s)
        if steady.decision is not None and not stirs:
            return steady.decision
        for member in members:
            if member.key not in counters:
                now = counters[member.key] = read(member)
                steady.followers[member.key].stirs(now, at_s, quiet_s)
        return [counters[member.key] for member in members]

    def decided(
        self, card: str, members: Sequence[LendingMember], decision: LendingDecision, at_s: float
    ) -> None:
        """Another decision for the card."""
        steady = self._cards[card]
        keys = {member.key for member in members}
        steady.members, steady.decision, steady.at_s = members, decision, at_s
        steady.followers = {key: one for key, one in steady.followers.items() if key in keys}

    def keep_only(self, cards: Mapping[str, object]) -> None:
        """Forget all others."""
        for card in self._cards.keys() - cards.keys():
            del self._cards[card]
