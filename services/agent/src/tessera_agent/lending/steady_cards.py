"""Which cards go on as they did when loans were last decided there: nobody who was quiet launches,
or is held back. Such a card is decided upon again after a while; what others do there until then
changes loans a little, and by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.lending.members import LendingMember
from tessera_core.hook.usage_counters import UsageCounters
from tessera_core.node.core_lending import LendingDecision


class _Follower(Struct):
    """One container on a card."""

    launches: int
    throttled_ns: int
    launched_s: float = float("-inf")
    """When it was seen to launch last."""
    held_back_s: float = float("-inf")

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
        self,
        card: str,
        members: Sequence[LendingMember],
        counters: Sequence[UsageCounters],
        at_s: float,
    ) -> LendingDecision | None:
        """The last decision where it stands; None where another one is due. `counters` are those
        of the members, in their order, read at `at_s`, which is of a clock that never jumps."""
        steady = self._cards.setdefault(card, _Steady())
        stirs = False
        for member, now in zip(members, counters, strict=True):
            follower = steady.followers.get(member.key)
            if follower is None:
                steady.followers[member.key] = _Follower(now.launches, now.throttled_ns)
                stirs = True
            else:
                stirs |= follower.stirs(now, at_s, self._again_s)
        late = at_s - steady.at_s >= self._again_s
        return None if stirs or late or members is not steady.members else steady.decision

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
