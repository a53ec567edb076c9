"""Sends a Binding until there is an answer that decides, or none in time."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from tessera_runtime.kube.api import Kube
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.binding.outcomes import BindingOutcomes
from tessera_scheduler.binding.quorum_read import PodReadState, QuorumReader
from tessera_scheduler.binding.request import (
    BindingContested,
    BindingDeferred,
    BindingOutcomeUnknown,
    BindingRejected,
    BindingTarget,
    BindingWritten,
    send_binding,
)
from tessera_scheduler.binding.settings import BindSettings
from tessera_scheduler.leadership.leader import Leadership


class _NothingWritten(Struct, frozen=True):
    """An attempt wrote nothing."""

    why: str
    version: str
    """For the next one."""
    again: bool


class BindingSender:
    """Makes the attempts of a bind call. Answers are bind's: empty when bound."""

    def __init__(
        self,
        *,
        kube: Kube,
        leadership: Leadership,
        quorum_reader: QuorumReader,
        outcomes: BindingOutcomes,
        clock: MonotonicClock,
        settings: BindSettings,
        call_s: float,
    ) -> None:
        """A call to the API server is given up after `call_s` seconds."""
        self._kube = kube
        self._leadership = leadership
        self._quorum_reader = quorum_reader
        self._outcomes = outcomes
        self._clock = clock
        self._settings = settings
        self._call_s = call_s

    @property
    def may_send(self) -> bool:
        """Whether this replica surely leads until a call that begins now is answered or given
        up."""
        return self._leadership.fence() >= self._call_s

    async def send(self, target: BindingTarget, version: str, *, unsettled: bool) -> str:
        """Send the Binding. With `unsettled` a former one is on its way: a refusal of this one says
        nothing of that."""
        until = self._clock.time() + self._settings.whole_s
        problem = "this replica is about to stop leading, or the API server is slow: ask again"
        for _ in range(self._settings.tries):
            if not self.may_send or self._clock.time() > until:
                break
            attempt = await self._attempt(target, version)
            if isinstance(attempt, str):
                return attempt
            problem, version = attempt.why, attempt.version
            if not attempt.again:
                break
        if unsettled:
            return self._outcomes.lost(target.name, problem, again=False)
        return self._outcomes.refused(target.name.uid, problem)

    async def _attempt(self, target: BindingTarget, version: str) -> str | _NothingWritten:
        """What bind answers, or that this attempt wrote nothing."""
        sent = await send_binding(self._kube, target, version, self._call_s)
        match sent:
            case BindingWritten():
                return self._outcomes.bound(target.name.uid, target.grant)
            case BindingOutcomeUnknown(why):
                return self._outcomes.lost(target.name, why, again=True)
            case BindingRejected(why):
                return _NothingWritten(why, version, again=False)
            case BindingDeferred(why, after_s):
                soon = after_s < self._settings.whole_s
                await asyncio.sleep(after_s if soon else 0)
                return _NothingWritten(why, version, again=soon)
            case BindingContested(why):
                return await self._contested(target, why)

    async def _contested(self, target: BindingTarget, why: str) -> str | _NothingWritten:
        found = await self._quorum_reader.try_read(target.name)
        if found is None:
            return self._outcomes.lost(target.name, why, again=False)
        if found.state is not PodReadState.OPEN:
            return self._outcomes.decided(target.name, found)
        return _NothingWritten(why, found.version, again=True)
