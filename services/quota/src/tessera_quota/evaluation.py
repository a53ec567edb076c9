"""All quotas, evaluated again and again: what is held, requested and measured becomes a status, and
an event when a phase changes.

It decides nothing about placement. The scheduler counts by itself, so that quotas hold while this
service is away.
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
from tessera_quota.idle_grants import idle_grant, idle_pods
from tessera_quota.pods import QuotaPods
from tessera_quota.quota_objects import AcceleratorQuotaSummary, QuotaObjects
from tessera_quota.quota_state import PhaseChange, QuotaState
from tessera_quota.settings import QuotaSettings
from tessera_quota.usage import Key, UsageListener
from tessera_runtime.clock import Clock
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import Limit, MeasuredUse, QuotaStatus

_FORGET_EVERY: Final = 60
"""Evaluations between two looks for nodes that are gone."""


class Measurements(Struct, frozen=True, kw_only=True):
    """What was measured, as one evaluation of all quotas sees it."""

    use: Mapping[Key, Measured]
    active: Mapping[str, float]
    """Pod uid -> Unix time of its last GPU time."""


class _GrantedUse(NamedTuple):
    used: Uses
    assumed: Uses
    """The part of it that has not started."""
    silent: int
    """Running pods of which nothing was measured lately."""


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
            self._events.keep_only(self._usage.last_active().keys())

    async def evaluate(self) -> None:
        """Evaluate every quota once; other tasks on the loop run in between."""
        measured = Measurements(use=self._usage.measured(), active=self._usage.last_active())
        for key in list(self.objects.known):
            quota = self.objects.known.get(key)
            if quota is not None:
                self.statuses[key] = self._status(self._resolved(quota), measured)
            await asyncio.sleep(0)
        self.evaluated.set()

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

    def _status(self, quota: AcceleratorQuotaSummary, measured: Measurements) -> QuotaStatus:
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
        granted = self._granted(limit, measured)
        state.count(
            parts(limit, granted.used), self._usage.gpu_seconds(limit.group, limit.vendor), now
        )
        use = _measured(limit, measured.use)
        message = ""
        if limit.group:
            message = excess(self._ledger.allowance(limit.group[0]), limit, use)
        throttles = quota.cores_percent < 100
        change = state.evaluate(message, quota.after_s, throttles=throttles, wall=wall, now=now)
        count = self._settings.count
        idle = idle_pods(self._pods, limit, measured.active, wall - count.idle_s)
        requests = (each for name in limit.group for each in self._pods.waiting(name))
        status = replace(
            _phase_status(quota, state, message),
            used=amounts(limit, granted.used),
            assumed=amounts(limit, granted.assumed),
            waiting=waiting(limit, requests),
            seen=MeasuredUse(
                memory=quantity(use.memory_bytes),
                cores=round(use.cores_percent, 1),
                silent=granted.silent,
            ),
            idle_pods=len(idle),
            idle=tuple(idle_grant(*each) for each in idle[: count.idle_shown]),
        )
        self._publish(quota, status, change, now)
        for pod, since, _ in idle:
            self._events.publish_idle(pod, since)
        return status

    def _granted(self, limit: Limit, measured: Measurements) -> _GrantedUse:
        used: dict[tuple[str, str], QuotaUsage] = {}
        assumed: dict[tuple[str, str], QuotaUsage] = {}
        silent = 0
        for namespace in limit.group:
            for pod, entry in self._pods.holding(namespace):
                silent += pod.runs and pod.uid not in measured.active
                for total in (used,) if pod.runs else (used, assumed):
                    for key, use in entry.uses.items():
                        total[key] = total.get(key, QuotaUsage()).plus(use)
        return _GrantedUse(used, assumed, silent)

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


def _measured(limit: Limit, use: Mapping[Key, Measured]) -> Measured:
    mine = [
        each for (namespace, vendor), each in use.items()
        if namespace in limit.group and limit.vendor in ("", vendor)
    ]  # fmt: skip
    return Measured(sum(m.memory_bytes for m in mine), sum(m.cores_percent for m in mine))
