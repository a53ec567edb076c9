"""Idle cores of a card, lent to its busy neighbours and taken back when they are wanted.

Pure: readings of the hooks' counters come in, some ten times a second, loans come out. Each
container keeps a **claim** on its own cores: nothing while it is idle, all of them from the moment
at which it launches again, and slowly less while it uses less. What no claim covers is lent to
those that are held back, in proportion to the cores that they were granted, for a short time.

Claims and loans of a card never add up to more than the card. It promises nothing about kernels
that run already: a loan that is taken back ends with the borrower's next launch. A kernel longer
than any before it may be taken for idleness once; from then on its length is known.

Priorities are HAMi's: while a container that matters more (a lower number) is active, those of its
namespace that matter less are held. Those of other namespaces are held only where an administrator
allowed it, and an owner of cores then has them back after a bounded time. Containers without a
priority neither hold nor are held. Who launches is what a container says of itself: it counts as
active only where the driver saw it work.

Best-effort containers come last: they share in equal parts what claims and loans to others leave,
and hold nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

FULL: Final = 1000
"""Permille of a card."""
_STEP: Final = 10
"""Loans are multiples of this; the odd rest stays idle."""
_STEADY: Final = 20
"""A loan that would grow by no more than this stays as it is."""
_SPARE: Final = 50
"""Permille that an owner's claim, or a borrower's loan, is above what it uses."""
_SECOND: Final = 1_000_000_000
MOST_HELD_S: Final = 10.0
"""Seconds for which a container keeps an owner of another namespace from its cores."""
REST_S: Final = 20.0
"""Seconds for which that owner is left alone then: it is held a third of the time at most."""


class LendingTimings(Struct, frozen=True, kw_only=True):
    """How quickly is lent and taken back."""

    idle_s: float = 0.5
    """Without a launch for so long, all of a container's cores are lent; longer where its own
    kernels are."""
    window_s: float = 1.0
    """Over which use is measured; longer where kernels are."""
    settle_s: float = 4.0
    """In which the claim of a container that wants nothing of it would go down from all to none."""
    hungry_s: float = 2.0
    """For so long after it was held back a container counts as wanting more, unless it is idle."""
    active_s: float = 3.0
    """For so long after a launch a container holds those that matter less."""
    most_held_s: float = MOST_HELD_S
    """For so long in all the containers of other namespaces may hold an owner of cores; then it is
    left alone for `rest_s`. What it is held in pieces adds up, and goes as time passes."""
    rest_s: float = REST_S


class CounterSample(Struct, frozen=True, kw_only=True):
    """One container on one card, now."""

    key: str
    """Names the container."""
    granted_permille: int
    """Of the card's time; 0, or 1000 and more = not limited: it needs no loan."""
    most_permille: int = FULL
    """What lending may take it to, its own included; at or below its own, it gets nothing."""
    priority: int | None = None
    """Lower matters more; None = it has none."""
    namespace: str = ""
    reaches: bool = False
    """Its priority counts in other namespaces than its own as well."""
    works: bool = True
    """False = the driver saw nothing of the work that the counters below count."""
    rest: bool = False
    """Best-effort: it has what the others leave. `granted_permille` is a floor, and 0 is none."""
    lends: bool = True
    """False = all of its own is kept for it, whatever it uses."""
    lent_permille: int = 0
    """The loan in force."""
    gpu_ns: int = 0
    """GPU time so far. This and the counters below may go back: then they start again."""
    throttled_ns: int = 0
    launches: int = 0


class LendingDecision(Struct, frozen=True, kw_only=True):
    """What each container of a card is to have from now on."""

    loans: Mapping[str, int]
    """Key -> permille on top of its own; 0 = none."""
    held: frozenset[str]
    """Those that must not launch for now."""
    calm: bool = False
    """Nobody is lent to or held, and nobody wants to be: it can be looked at less often."""


class _Point(NamedTuple):
    at_s: float
    gpu_ns: int
    launches: int


class _Followed:
    """What is remembered of one container on one card."""

    def __init__(self, now: CounterSample, at_s: float) -> None:
        """A container that was just met keeps all of its own."""
        self.claim = float(_granted(now))
        self.active_s = self.hungry_s = at_s
        self.launched_s = float("-inf")
        """When it was seen to launch last."""
        self.hungry = False
        self._waiting, self._resting, self._waited_s, self._debt_s = False, False, at_s, 0.0
        self.use = 0.0
        """Permille of the card, over the window."""
        self.last = now
        self._long_s = 0.0
        """How long its kernels take, the longest mean of late."""
        self._at_s = at_s
        self._points = deque([_Point(at_s, now.gpu_ns, now.launches)])

    def waits(self, at_s: float, pace: LendingTimings, *, wanted: bool) -> bool:
        """Whether it waits for containers of other namespaces, which want it to or not."""
        passed_s, self._waited_s = at_s - self._waited_s, at_s
        back_s = passed_s * pace.most_held_s / pace.rest_s
        self._debt_s = max(self._debt_s + (passed_s if self._waiting else -back_s), 0.0)
        if self._debt_s >= pace.most_held_s:
            self._resting = True
        elif not self._debt_s:
            self._resting = False
        self._waiting = wanted and not self._resting
        return self._waiting

    @property
    def rested(self) -> bool:
        """Whether nothing is remembered of its waiting."""
        return not self._waiting and not self._debt_s

    def idle(self, at_s: float, pace: LendingTimings) -> bool:
        """Whether it has launched nothing for longer than its own kernels explain."""
        return at_s - self.active_s >= pace.idle_s + 2 * self._long_s

    def see(self, now: CounterSample, at_s: float, pace: LendingTimings) -> None:
        """The counters as they are now, which have not gone back."""
        before, passed_s = self.last, at_s - self._at_s
        self.last, self._at_s = now, at_s
        throttled = now.throttled_ns > before.throttled_ns
        moved = throttled or now.launches > before.launches
        self._measure(now, at_s, pace)
        granted, idle = _granted(now), self.idle(at_s, pace)
        if moved:
            if idle:  # what it used before it rested says nothing of what it wants now
                self._points = deque([self._points[-1]])
            self.active_s = self.launched_s = at_s
            self._claim(granted, passed_s, pace, all_=idle or throttled or not now.lends)
        elif idle and now.lends:
            self.claim = 0.0
        else:
            self._claim(granted, passed_s, pace, all_=not now.lends)
        if throttled:
            self.hungry_s, self.hungry = at_s, True
        elif (idle and not moved) or at_s - self.hungry_s >= pace.hungry_s + self._long_s:
            self.hungry = False

    def _claim(self, granted: int, passed_s: float, pace: LendingTimings, *, all_: bool) -> None:
        if all_:
            self.claim = float(granted)
            return
        wanted = self.use * 1.25 + _SPARE
        settled = self.claim - FULL * passed_s / pace.settle_s
        self.claim = min(float(granted), max(wanted, settled))

    def _measure(self, now: CounterSample, at_s: float, pace: LendingTimings) -> None:
        points = self._points
        points.append(_Point(at_s, now.gpu_ns, now.launches))
        window_s = pace.window_s + 2 * self._long_s
        while len(points) > 2 and at_s - points[1].at_s >= window_s:
            points.popleft()
        first, last = points[0], points[-1]
        span_s = last.at_s - first.at_s
        if span_s > 0:
            busy_s = (last.gpu_ns - first.gpu_ns) / _SECOND
            self.use = min(max(busy_s / span_s, 0) * FULL, FULL)
            launched = last.launches - first.launches
            mean_s = max(busy_s, 0) / launched if launched > 0 else 0.0
            self._long_s = max(mean_s, self._long_s * (1 - min(span_s, 1) / 100))

    def wants(self, now: CounterSample) -> float:
        """The loan that it can use, in permille."""
        granted = _granted(now)
        most = min(now.most_permille, FULL) - granted
        if most <= 0 or not (now.rest or 0 < now.granted_permille < FULL):
            return 0
        if self.hungry:
            return most
        kept = self.use * 1.1 + _SPARE - granted
        return max(0, min(kept, now.lent_permille, most))


class Lender:
    """Decides for one card."""

    def __init__(self, pace: LendingTimings) -> None:
        """Nobody is known."""
        self._pace = pace
        self._known: dict[str, _Followed] = {}

    def decide(self, readings: Sequence[CounterSample], at_s: float) -> LendingDecision:
        """What each of these containers, which are all that hold a part of the card, is to have.
        `at_s` is of a clock that never jumps."""
        self._known = {r.key: self._followed(r, at_s) for r in readings}
        held = self._paused(readings, at_s)
        claimed = sum([self._known[r.key].claim for r in readings if r.key not in held])
        wanted = {r.key: self._known[r.key].wants(r) for r in readings if r.key not in held}
        shared = _by_class(readings, wanted, max(FULL - claimed, 0))
        loans = {r.key: _rounded(shared.get(r.key, 0), r.lent_permille) for r in readings}
        calm = not held and not any(wanted.values()) and not any(r.lent_permille for r in readings)
        return LendingDecision(loans=loans, held=held, calm=calm)

    def claim(self, key: str) -> float:
        """Permille that is kept for a container; 0 where it is not known."""
        followed = self._known.get(key)
        return followed.claim if followed else 0.0

    def _followed(self, reading: CounterSample, at_s: float) -> _Followed:
        followed = self._known.get(reading.key)
        if followed is None or _went_back(followed.last, reading):
            return _Followed(reading, at_s)
        followed.see(reading, at_s, self._pace)
        return followed

    def _paused(self, readings: Sequence[CounterSample], at_s: float) -> frozenset[str]:
        bound = [
            r for r in readings if r.priority is not None or not self._known[r.key].rested
        ]  # fmt: skip
        if not bound:
            return frozenset()
        active = [
            r for r in readings
            if r.works and at_s - self._known[r.key].launched_s < self._pace.active_s
        ]  # fmt: skip
        return frozenset(r.key for r in bound if self._is_paused(r, active, at_s))

    def _is_paused(
        self, reading: CounterSample, active: Sequence[CounterSample], at_s: float
    ) -> bool:
        before = [one for one in active if _goes_before(one, reading)]
        owns = any(one.namespace == reading.namespace for one in before)
        others = any(one.reaches for one in before) and not owns
        bounded = others and reading.granted_permille > 0
        waits = self._known[reading.key].waits(at_s, self._pace, wanted=bounded)
        return owns or waits or (others and not bounded)


def _goes_before(one: CounterSample, other: CounterSample) -> bool:
    if one.rest or one.priority is None or other.priority is None:
        return False
    return one.priority < other.priority


def _granted(reading: CounterSample) -> int:
    """What the container may use without a loan; one without a limit, all."""
    if reading.rest:
        return min(reading.granted_permille, FULL)
    return reading.granted_permille if 0 < reading.granted_permille < FULL else FULL


def _went_back(before: CounterSample, now: CounterSample) -> bool:
    return (
        now.launches < before.launches
        or now.throttled_ns < before.throttled_ns
        or now.gpu_ns + _SECOND < before.gpu_ns  # what was predicted is corrected both ways
    )


def _by_class(
    readings: Sequence[CounterSample], wanted: Mapping[str, float], pool: float
) -> dict[str, float]:
    """The pool among those that were granted cores, by these; what is left then among the others,
    in equal parts."""
    weights = {r.key: _granted(r) for r in readings if r.key in wanted and not r.rest}
    first = _shared(pool, {key: wanted[key] for key in weights}, weights)
    others = {r.key: 1 for r in readings if r.key in wanted and r.rest}
    left = pool - sum(first.values())
    return first | _shared(left, {key: wanted[key] for key in others}, others)


def _shared(
    pool: float, wanted: Mapping[str, float], weights: Mapping[str, int]
) -> dict[str, float]:
    """The pool by weight, no container more than it wants; what it leaves goes to the others."""
    given = dict.fromkeys(wanted, 0.0)
    open_ = {key for key, want in wanted.items() if want > 0}
    while open_ and pool > 1e-6:
        total = sum(weights[key] for key in open_)
        part = {key: pool * weights[key] / total for key in open_}
        full = {key for key in open_ if given[key] + part[key] >= wanted[key]}
        for key in full or open_:
            more = wanted[key] - given[key] if full else part[key]
            given[key] += more
            pool -= more
        open_ = open_ - full if full else set()
    return given


def _rounded(loan: float, before: int) -> int:
    whole = int(loan + 1e-6) // _STEP * _STEP  # what sharing lost to rounding
    return before if 0 < before <= whole <= before + _STEADY else whole
