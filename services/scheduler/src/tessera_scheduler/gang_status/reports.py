"""Events about gangs, one a change: on the bus, and in Kubernetes on the PodGroup where its status
is written, else on the first pod that waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from tessera_core.gang_scheduling.attempt import HOLDING, GangAttempt, KnownBundle
from tessera_core.gangs.gang import GangMembers
from tessera_core.machines.gang import GangPhase
from tessera_runtime.kube.events import EventRecorder, ObjectRef
from tessera_runtime.kube.timestamps import parse_time
from tessera_scheduler.gang_status.messages import GangMessages
from tessera_scheduler.gang_status.metrics import GangMetrics
from tessera_schema.messages.gang_events import GangChange

_NUMBERS: Final = re.compile(r"\d+")

_WAITS: Final = (GangPhase.GATHERING, GangPhase.QUEUED)


class _Reported(Struct):
    """What was reported last of one gang."""

    phase: GangPhase = GangPhase.OVER
    misses: int = 0
    words: str = ""
    """Why it waits, without numbers: another number is no other reason."""
    about: ObjectRef | None = None
    members: GangMembers | None = None


class GangReports:
    """Reports changes of gangs."""

    def __init__(
        self,
        recorder: EventRecorder,
        metrics: GangMetrics,
        messages: GangMessages,
        ref: Callable[[str], ObjectRef | None],
        why: Callable[[str], str],
    ) -> None:
        """`ref` gives the PodGroup of a gang's id, None where it is not known; `why` says why the
        gang waits."""
        self._recorder = recorder
        self._metrics = metrics
        self._messages = messages
        self._ref = ref
        self._why = why
        self._known: dict[str, _Reported] = {}
        self._silent = True

    def forget(self) -> None:
        """This replica does not lead: of what is read next, only that gangs wait is reported; the
        rest has happened before."""
        self._known, self._silent = {}, True

    def observe(self, bundles: Iterable[KnownBundle], now: float) -> None:
        """Report what has changed since the last time."""
        found: dict[str, _Reported] = {}
        for known in bundles:
            for members in known.bundle.gangs:
                if members.gang.together or members.gang.problem:
                    before = self._known.get(members.gang.id) or _Reported()
                    found[members.gang.id] = self._observed(before, members, known.attempt, now)
        for gang in self._known.keys() - found.keys():
            before = self._known[gang]
            if before.members is not None:
                self._messages.changed(GangChange.ENDED, before.members, "it has no pods any more")
            if before.phase is GangPhase.BROKEN and before.about is not None:
                self._dissolved(before.about)
        self._known, self._silent = found, False

    def _observed(
        self, before: _Reported, members: GangMembers, attempt: GangAttempt, now: float
    ) -> _Reported:
        gang = members.gang
        about = self._ref(gang.id) or next(_pods(members), before.about)
        why = "" if attempt.phase in HOLDING else self._why(gang.id)
        after = _Reported(attempt.phase, attempt.misses, _NUMBERS.sub("", why), about, members)
        if not self._silent or after.phase in _WAITS:
            self._changed(members, before, after, why)
        if not self._silent:
            if after.phase is GangPhase.STARTED is not before.phase:
                self._measure(members, now)
            self._metrics.misses.inc(max(after.misses - before.misses, 0))
        return after

    def _changed(self, members: GangMembers, before: _Reported, after: _Reported, why: str) -> None:
        change = _change(before, after)
        dissolved = before.phase is GangPhase.BROKEN and after.phase in _WAITS and not members.bound
        if dissolved and after.about is not None:
            self._dissolved(after.about)
        if change is None:
            return
        text = _text(change, members, why)
        self._messages.changed(change, members, text)
        if after.about is not None and not dissolved:
            self._record(after.about, change, text)

    def _record(self, about: ObjectRef, change: GangChange, text: str) -> None:
        record = self._recorder.record
        match change:
            case GangChange.WAITING:
                record(about, "GangWaiting", text)
            case GangChange.RESERVED:
                record(about, "GangReserved", text)
            case GangChange.MISSED:
                record(about, "GangMissed", text, warning=True)
            case GangChange.STARTED:
                record(about, "GangStarted", text)
            case GangChange.BROKEN:
                record(about, "GangBroken", text, warning=True)
            case GangChange.ENDED:
                return

    def _dissolved(self, about: ObjectRef) -> None:
        text = "it was below its minimum, and none of its members has a node any more"
        self._recorder.record(about, "GangDissolved", text)

    def _measure(self, members: GangMembers, now: float) -> None:
        times = (parse_time(each.pod.metadata.creation_timestamp) for each in members.bound)
        first = min((at for at in times if at is not None), default=None)
        if first is not None:
            self._metrics.start_seconds.observe(max(now - first, 0))


def _pods(members: GangMembers) -> Iterator[ObjectRef]:
    for member in (*members.waiting, *members.bound):
        meta = member.pod.metadata
        yield ObjectRef("Pod", meta.name, meta.namespace or "default", meta.uid)


def _change(before: _Reported, after: _Reported) -> GangChange | None:
    if after.misses > before.misses:
        return GangChange.MISSED
    if after.phase is GangPhase.BROKEN is not before.phase:
        return GangChange.BROKEN
    if after.phase in _WAITS and (after.words != before.words or before.phase not in _WAITS):
        return GangChange.WAITING
    if after.phase in HOLDING and before.phase not in HOLDING:
        return GangChange.RESERVED
    if after.phase is GangPhase.STARTED is not before.phase:
        return GangChange.STARTED
    return None


def _text(change: GangChange, members: GangMembers, why: str) -> str:
    bound, least = len(members.bound), members.gang.min
    match change:
        case GangChange.BROKEN:
            return f"{bound} of {least} members have a node: {why}"
        case GangChange.RESERVED:
            return f"cards are reserved: {len(members.waiting)} members may start"
        case GangChange.STARTED:
            return f"{bound} members have a node, {least} needed"
        case _:
            return why
