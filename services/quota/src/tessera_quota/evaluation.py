"""All quotas, evaluated again and again: what is held, requested and measured becomes a status, and
an event when a phase changes.

It decides nothing about placement. The scheduler counts by itself, so that quotas hold while this
service is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.throttle import ThrottlePhase
from tessera_core.quota.status import amounts, best_effort, excess, parts, quantity, waiting
from tessera_quota.events import QuotaEvents
from tessera_quota.group_use import RoundUse
from tessera_quota.idle_grants import idle_grant
from tessera_quota.pods import QuotaPods
from tessera_quota.quota_objects import AcceleratorQuotaSummary, QuotaObjects
from tessera_quota.quota_state import PhaseChange, QuotaState
from tessera_quota.settings import QuotaSettings
from tessera_quota.usage import UsageListener
from tessera_runtime.clock import Clock
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import MeasuredUse, QuotaStatus

_FORGET_EVERY: Final = 60
"""Evaluations between two looks for nodes that are gone."""


class QuotaEvaluator:
    """The phase and the status of each AcceleratorQuota."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        pods: QuotaPods,
        usage: UsageListener,
        settings: QuotaSettings,
        events: QuotaEvents,
        clock: Clock,
        now: Callable[[], float],
    ) -> None:
        """`now` is the loop's time."""
        self.objects = QuotaObjects(ledger, self._remove)
        """The handler for AcceleratorQuotas."""
        self.statuses: dict[str, QuotaStatus] = {}
        """The newest of each quota, by key."""
        self.evaluated = asyncio.Event()
        """Set by each evaluation; the task that waits for it clears it."""
        self._ledger = ledger
        self._pods = pods
        self._usage = usage
        self._settings = settings
        self._events = events
        self._clock = clock
        self._now = now
        self._states: dict[str, QuotaState] = {}
        self._published_at: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Evaluate for ever, every `count.every_s` seconds."""
        while True:
            for _ in range(_FORGET_EVERY):
                await self.evaluate()
                await asyncio.sleep(self._settings.count.every_s)
            self._usage.forget()
            self._events.forget_idle(lambda uid: self._usage.last_active(uid) is not None)

    async def evaluate(self) -> None:
        """Evaluate every quota once; other tasks on the loop run in between."""
        idle_before = self._clock.time() - self._settings.count.idle_s
        use = RoundUse(self._pods, self._usage, idle_before, self._events.publish_idle)
        for key in list(self.objects.known):
            await use.read(self._group(key))
            quota = self.objects.known.get(key)
            if quota is not None:
                self.statuses[key] = self._status(self._resolved(quota), use)
            await asyncio.sleep(0)
        self.evaluated.set()

    def _group(self, key: str) -> tuple[str, ...]:
        """The namespaces of a quota."""
        quota = self.objects.known.get(key)
        limit = None if quota is None else self._resolved(quota).limit
        return () if limit is None else limit.group

    def _remove(self, quota: AcceleratorQuotaSummary) -> None:
        self.statuses.pop(quota.key, None)
        self._published_at.pop(quota.key, None)
        state = self._states.pop(quota.key, None)
        if state is not None and state.phase is not ThrottlePhase.WITHIN:
            self._events.publish_removal(self._resolved(quota))

    def _resolved(self, quota: AcceleratorQuotaSummary) -> AcceleratorQuotaSummary:
        """The quota with the namespaces that it selects at this moment."""
        if quota.limit is None:
            return quota
        return replace(quota, limit=self._ledger.resolved(quota.limit))

    def _status(self, quota: AcceleratorQuotaSummary, round_use: RoundUse) -> QuotaStatus:
        wall, now = self._clock.time(), self._now()
        state = self._states.get(quota.key)
        if state is None:
            state = self._states[quota.key] = QuotaState(quota.status, wall=wall, now=now)
        limit = quota.limit
        if limit is None:
            change = state.evaluate("", quota.after_s, throttles=False, wall=wall, now=now)
            status = _phase_status(quota, state, "")
            self._publish(quota, status, change, now)
            return status
        use = round_use.of(limit.group)
        measured = use.measured_by(limit.vendor)
        state.count(parts(limit, use.used), use.gpu_seconds_of(limit.vendor), now)
        message = ""
        if limit.group:
            message = excess(self._ledger.own_allowance(limit), limit, measured)
        throttles = quota.cores_percent < 100
        change = state.evaluate(message, quota.after_s, throttles=throttles, wall=wall, now=now)
        count = self._settings.count
        idle = round_use.idle(limit)
        status = replace(
            _phase_status(quota, state, message),
            used=amounts(limit, use.used),
            best_effort=best_effort(limit, use.used),
            assumed=amounts(limit, use.assumed),
            waiting=waiting(limit, use.pending),
            seen=MeasuredUse(
                memory=quantity(measured.memory_bytes),
                cores=round(measured.cores_percent, 1),
                silent=use.silent,
            ),
            idle_pods=len(idle),
            idle=tuple(idle_grant(each) for each in idle[: count.idle_shown]),
        )
        self._publish(quota, status, change, now)
        return status

    def _publish(
        self, quota: AcceleratorQuotaSummary, status: QuotaStatus, change: PhaseChange, now: float
    ) -> None:
        # A throttle in force is repeated for agents that have come since.
        again = (
            status.phase == ThrottlePhase.THROTTLED
            and now - self._published_at.get(quota.key, now) >= self._settings.throttle.repeat_s
        )
        if change is not PhaseChange.NOTHING:
            self._events.publish_change(quota, status, change)
        elif again:
            self._events.publish_throttle(quota, status)
        if change is not PhaseChange.NOTHING or again or quota.key not in self._published_at:
            self._published_at[quota.key] = now


def _phase_status(quota: AcceleratorQuotaSummary, state: QuotaState, message: str) -> QuotaStatus:
    """What a status says of the object and its phase."""
    throttled = state.phase is ThrottlePhase.THROTTLED
    ends = state.phase is ThrottlePhase.GRACE and quota.cores_percent < 100
    return QuotaStatus(
        observed_generation=quota.generation,
        phase=state.phase.value,
        phase_since=timestamps.format_time(state.since),
        throttles_at=timestamps.format_time(state.since + quota.after_s) if ends else "",
        cores_percent=quota.cores_percent if throttled else 100,
        message=message,
        problem=quota.problem,
        hours=state.hours,
    )
