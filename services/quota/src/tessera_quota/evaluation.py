"""All quotas, judged again and again: from what is held, asked and measured to a status, and to
what is told when a phase changes.

It decides nothing about placement. The scheduler counts by itself, so that nothing of this has to
run for a quota to hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.throttle import ThrottlePhase
from tessera_core.quota.allowance import QuotaUsage, Uses
from tessera_core.quota.status import Measured, amounts, excess, parts, quantity, waiting
from tessera_quota.events import QuotaEvents
from tessera_quota.idle_grants import idle_grant, resting
from tessera_quota.pods import QuotaPods
from tessera_quota.quota_objects import AcceleratorQuotaSummary, QuotaObjects
from tessera_quota.quota_state import PhaseChange, QuotaState
from tessera_quota.settings import QuotaSettings
from tessera_quota.usage import Key, UsageListener
from tessera_runtime.clock import Clock
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import Limit, MeasuredUse, QuotaStatus

_FORGET_EVERY: Final = 60
"""Judgements between two looks for nodes that are gone."""


class EvaluatorDependencies(Struct, frozen=True, kw_only=True):
    """What a judgement is made of."""

    ledger: Ledger
    pods: QuotaPods
    usage: UsageListener
    settings: QuotaSettings
    teller: QuotaEvents
    clock: Clock
    now: Callable[[], float]
    """The loop's time."""


class Measurements(Struct, frozen=True, kw_only=True):
    """What was measured, as one judgement of all quotas sees it."""

    use: Mapping[Key, Measured]
    active: Mapping[str, float]
    """Pod uid -> Unix time of its last GPU time."""


class _Held(NamedTuple):
    used: Uses
    assumed: Uses
    """The part of it that has not started."""
    silent: int
    """Running pods of which nothing was heard lately."""


class QuotaEvaluator:
    """Judges."""

    def __init__(self, made_of: EvaluatorDependencies) -> None:
        """No quota is known; `objects` is the sink for them."""
        self.objects = QuotaObjects(made_of.ledger, self._gone)
        self.statuses: dict[str, QuotaStatus] = {}
        """The newest of each quota, by key; for whoever writes and shows them."""
        self.judged = asyncio.Event()
        """Set by each judgement; whoever waits for it clears it."""
        self._of = made_of
        self._tracked: dict[str, QuotaState] = {}
        self._told_at: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Judge for ever, as often as is set."""
        while True:
            for _ in range(_FORGET_EVERY):
                await self.evaluate()
                await asyncio.sleep(self._of.settings.count.every_s)
            self._of.usage.forget()
            self._of.teller.keep(self._of.usage.last_active().keys())

    async def evaluate(self) -> None:
        """Judge every quota once; others on the loop have their turn in between."""
        measured = Measurements(use=self._of.usage.measured(), active=self._of.usage.last_active())
        for key in list(self.objects.known):
            sight = self.objects.known.get(key)
            if sight is not None:
                self.statuses[key] = self._status(self._resolved(sight), measured)
            await asyncio.sleep(0)
        self.judged.set()

    def _gone(self, sight: AcceleratorQuotaSummary) -> None:
        self.statuses.pop(sight.key, None)
        self._told_at.pop(sight.key, None)
        sight = self._resolved(sight)
        tracked = self._tracked.pop(sight.key, None)
        if tracked is not None and tracked.phase is not ThrottlePhase.WITHIN:
            self._of.teller.gone(sight)

    def _resolved(self, sight: AcceleratorQuotaSummary) -> AcceleratorQuotaSummary:
        """With the namespaces that it selects at this moment."""
        if sight.limit is None:
            return sight
        return replace(sight, limit=self._of.ledger.resolved(sight.limit))

    def _status(self, sight: AcceleratorQuotaSummary, measured: Measurements) -> QuotaStatus:
        of, wall, now = self._of, self._of.clock.time(), self._of.now()
        tracked = self._tracked.get(sight.key)
        if tracked is None:
            tracked = self._tracked[sight.key] = QuotaState(sight.status, wall=wall, now=now)
        limit = sight.limit
        if limit is None:
            change = tracked.evaluate("", sight.after_s, throttles=False, wall=wall, now=now)
            status = _shown(sight, tracked, "")
            self._tell(sight, status, change, now)
            return status
        held = self._held(limit, measured)
        seconds = of.usage.gpu_seconds(limit.group, limit.vendor)
        tracked.count(parts(limit, held.used), seconds, now)
        seen = _seen(limit, measured.use)
        message = ""
        if limit.group:
            message = excess(of.ledger.allowance(limit.group[0]), limit, seen)
        throttles = sight.cores_percent < 100
        change = tracked.evaluate(message, sight.after_s, throttles=throttles, wall=wall, now=now)
        idle = resting(of.pods, limit, measured.active, wall - of.settings.count.idle_s)
        status = replace(
            _shown(sight, tracked, message),
            used=amounts(limit, held.used), assumed=amounts(limit, held.assumed),
            waiting=waiting(limit, (asks for n in limit.group for asks in of.pods.waiting(n))),
            seen=MeasuredUse(
                memory=quantity(seen.memory_bytes), cores=round(seen.cores_percent, 1),
                silent=held.silent,
            ),
            idle_pods=len(idle),
            idle=tuple(idle_grant(*each) for each in idle[: of.settings.count.idle_shown]),
        )  # fmt: skip
        self._tell(sight, status, change, now)
        for pod, since, _ in idle:
            of.teller.idle(pod, since)
        return status

    def _held(self, limit: Limit, measured: Measurements) -> _Held:
        used: dict[tuple[str, str], QuotaUsage] = {}
        assumed: dict[tuple[str, str], QuotaUsage] = {}
        silent = 0
        for namespace in limit.group:
            for pod, entry in self._of.pods.holding(namespace):
                silent += pod.runs and pod.uid not in measured.active
                for total in (used,) if pod.runs else (used, assumed):
                    for key, use in entry.uses.items():
                        total[key] = total.get(key, QuotaUsage()).plus(use)
        return _Held(used, assumed, silent)

    def _tell(
        self, sight: AcceleratorQuotaSummary, status: QuotaStatus, change: PhaseChange, now: float
    ) -> None:
        again = (
            status.phase == ThrottlePhase.THROTTLED
            and now - self._told_at.get(sight.key, now) >= self._of.settings.throttle.tell_s
        )
        if change is not PhaseChange.NOTHING:
            self._of.teller.changed(sight, status, change)
        elif again:
            self._of.teller.again(sight, status)
        if change is not PhaseChange.NOTHING or again or sight.key not in self._told_at:
            self._told_at[sight.key] = now


def _shown(sight: AcceleratorQuotaSummary, tracked: QuotaState, message: str) -> QuotaStatus:
    """What a status says of the object and its phase."""
    throttled = tracked.phase is ThrottlePhase.THROTTLED
    ends = tracked.phase is ThrottlePhase.GRACE and sight.cores_percent < 100
    return QuotaStatus(
        observed_generation=sight.generation,
        phase=tracked.phase.value,
        phase_since=timestamps.format_time(tracked.since),
        throttles_at=timestamps.format_time(tracked.since + sight.after_s) if ends else "",
        cores_percent=sight.cores_percent if throttled else 100,
        message=message,
        problem=sight.problem,
        hours=tracked.hours,
    )


def _seen(limit: Limit, use: Mapping[Key, Measured]) -> Measured:
    mine = [
        each for (namespace, vendor), each in use.items()
        if namespace in limit.group and limit.vendor in ("", vendor)
    ]  # fmt: skip
    return Measured(sum(m.memory_bytes for m in mine), sum(m.cores_percent for m in mine))
