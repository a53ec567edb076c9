"""Memory of a card, taken back from best-effort containers for an owner that waits for it.

Pure: what the hooks' usage files say comes in ten times a second, and who has to end comes out. An
owner is a container that is not best-effort. It waits when the driver refuses memory for which its
own limit has room; the youngest best-effort container ends first, and no more of them than are
needed. Each is first asked to end, and ended by force when it is still there after a while.

Usage files are the containers' to write. An owner that claims to wait gets no more than its own
limit freed, which it could have allocated as well. What a best-effort container says of its memory
decides only how many end at once: those that say nothing are next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

_FRESH_NS: Final = 1_000_000_000
"""A container that waits says so every 20 ms; one that was killed says nothing more."""


class ReclaimRules(Struct, frozen=True, kw_only=True):
    """How memory is taken back, in seconds."""

    grace_s: Annotated[float, Meta(ge=0)] = 1.0
    """For which a container may end by itself: an owner waits 5 s in all."""
    settle_s: Annotated[float, Meta(ge=0)] = 0.2
    """After a container has ended, until another one has to: the owner tries again meanwhile."""


class OwnerMemory(Struct, frozen=True, kw_only=True):
    """One owner's memory on a card, as its usage file says."""

    key: str
    limit_bytes: int
    """As its limits file says; 0 = none."""
    wanted_bytes: int = 0
    wanted_at_ns: int = 0
    """Wall clock, when it last said that it waits; 0 = it does not."""
    failed: int = 0
    """Allocations that the driver refused so far although the limit had room."""
    alone: bool = False
    """It was granted the card to itself: no best-effort container stays there."""

    def waits_for(self, wall_ns: int) -> int:
        """The bytes for which it waits now; 0 = it does not wait."""
        if abs(wall_ns - self.wanted_at_ns) > _FRESH_NS:
            return 0
        return min(self.wanted_bytes, self.limit_bytes or self.wanted_bytes)


class BestEffortMemory(Struct, frozen=True, kw_only=True):
    """One best-effort container on a card."""

    key: str
    since_s: float
    """When it came, by a clock that never jumps; -inf = before the agent."""
    charged_bytes: int = 0
    """As its usage file says."""


class EndRequest(Struct, frozen=True):
    """A best-effort container has to end."""

    key: str
    by_force: bool
    """False: it is asked to."""


class ReclaimDecision(Struct, frozen=True, kw_only=True):
    """What follows from one look at a card."""

    ends: tuple[EndRequest, ...] = ()
    wanted_bytes: int = 0
    """For which owners wait."""
    began: bool = False
    """None waited at the look before."""
    failed: int = 0
    """Allocations of owners that failed since."""

    @property
    def short(self) -> bool:
        """Whether an owner does not have what it was granted."""
        return self.wanted_bytes > 0 or self.failed > 0


class CardReclaimer:
    """Decides for one card. Times are seconds of a clock that never jumps, but for `wall_ns`."""

    def __init__(self, rules: ReclaimRules) -> None:
        self._rules = rules
        self._ending: dict[str, float] = {}
        """Containers that have to end, and when that was last requested."""
        self._settled_s = float("-inf")
        self._failed: dict[str, int] = {}
        self._waits = False

    def decide(
        self, owners: Sequence[OwnerMemory], best_effort: Sequence[BestEffortMemory],
        now_s: float, wall_ns: int,
    ) -> ReclaimDecision:  # fmt: skip
        """Who has to end now. Call it with all containers that run on the card."""
        wanted = sum(owner.waits_for(wall_ns) for owner in owners)
        alone = any(owner.alone for owner in owners)
        began, self._waits = wanted > 0 and not self._waits, wanted > 0
        failed = self._failures(owners)
        ends: tuple[EndRequest, ...] = ()
        if wanted or alone:
            ends = self._ends(wanted, best_effort, now_s, everyone=alone)
        else:
            self._ending.clear()
        return ReclaimDecision(ends=ends, wanted_bytes=wanted, began=began, failed=failed)

    def _failures(self, owners: Sequence[OwnerMemory]) -> int:
        before = self._failed
        self._failed = {owner.key: owner.failed for owner in owners}
        return sum(max(count - before.get(key, count), 0) for key, count in self._failed.items())

    def _ends(
        self, wanted: int, best_effort: Sequence[BestEffortMemory], now_s: float, *, everyone: bool
    ) -> tuple[EndRequest, ...]:
        self._forget_ended({one.key for one in best_effort}, now_s)
        late = [key for key, at in self._ending.items() if now_s - at >= self._rules.grace_s]
        more: tuple[str, ...] = ()
        if everyone:
            more = tuple(one.key for one in best_effort if one.key not in self._ending)
        elif now_s >= self._settled_s:
            more = self._more(wanted, best_effort)
        self._ending |= dict.fromkeys((*late, *more), now_s)
        return (
            *(EndRequest(key, by_force=True) for key in late),
            *(EndRequest(key, by_force=False) for key in more),
        )

    def _forget_ended(self, present: set[str], now_s: float) -> None:
        ended = self._ending.keys() - present
        for key in ended:
            del self._ending[key]
        if ended:
            self._settled_s = now_s + self._rules.settle_s

    def _more(self, wanted: int, best_effort: Iterable[BestEffortMemory]) -> tuple[str, ...]:
        """Who has to end besides those that are about to."""
        staying, short = [], float(wanted)
        for one in best_effort:
            if one.key in self._ending:
                short -= one.charged_bytes
            else:
                staying.append(one)
        using = [one for one in staying if one.charged_bytes > 0]
        ends = too_many(short, [(one.since_s, one.charged_bytes) for one in using])
        if ends or self._ending:
            return tuple(using[number].key for number in ends)
        # Contexts and code of a container that says nothing may be what the owner needs.
        youngest = max(staying, key=lambda one: one.since_s, default=None)
        return () if youngest is None else (youngest.key,)


def too_many(short_bytes: float, held: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Which best-effort containers of a card end so that this much comes free: the youngest first,
    and no more than needed. `held`: when each came, and the bytes that its end brings."""
    ends: list[int] = []
    for number in sorted(range(len(held)), key=lambda n: held[n][0], reverse=True):
        if short_bytes <= 0:
            break
        ends.append(number)
        short_bytes -= held[number][1]
    return tuple(ends)
