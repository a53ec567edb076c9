"""Events about gangs, one a change: on the PodGroup where its status is written, else on the first
pod that waits."""

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
from tessera_scheduler.gang_status.metrics import GangMetrics

_NUMBERS: Final = re.compile(r"\d+")

_WAITS: Final = (GangPhase.GATHERING, GangPhase.QUEUED)


class _Reported(Struct):
    """What was reported last of one gang."""

    phase: GangPhase = GangPhase.OVER
    misses: int = 0
    words: str = ""
    """Why it waits, without numbers: another number is no other reason."""
    about: ObjectRef | None = None


class GangReports:
    """Reports changes of gangs."""

    def __init__(
        self,
        recorder: EventRecorder,
        metrics: GangMetrics,
        ref: Callable[[str], ObjectRef | None],
        why: Callable[[str], str],
    ) -> None:
        """`ref` gives the PodGroup of a gang's id, None where it is not known; `why` says why the
        gang waits."""
        self._recorder = recorder
        self._metrics = metrics
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
            if before.phase is GangPhase.BROKEN and before.about is not None:
                self._dissolved(before.about)
        self._known, self._silent = found, False

    def _observed(
        self, before: _Reported, members: GangMembers, attempt: GangAttempt, now: float
    ) -> _Reported:
        gang = members.gang
        about = self._ref(gang.id) or next(_pods(members), before.about)
        why = "" if attempt.phase in HOLDING else self._why(gang.id)
        after = _Reported(attempt.phase, attempt.misses, _NUMBERS.sub("", why), about)
        if about is not None and (not self._silent or after.phase in _WAITS):
            self._changed(about, members, before, after, why)
        if not self._silent:
            if after.phase is GangPhase.STARTED is not before.phase:
                self._measure(members, now)
            self._metrics.misses.inc(max(after.misses - before.misses, 0))
        return after

    def _changed(
        self, about: ObjectRef, members: GangMembers, before: _Reported, after: _Reported, why: str
    ) -> None:
        record, bound = self._recorder.record, len(members.bound)
        if after.misses > before.misses:
            record(about, "GangMissed", why, warning=True)
        elif after.phase is GangPhase.BROKEN and before.phase is not GangPhase.BROKEN:
            record(
                about, "GangBroken", f"{bound} of {members.gang.min} members have a node: {why}",
                warning=True,
            )  # fmt: skip
        elif before.phase is GangPhase.BROKEN and not bound:
            self._dissolved(about)
        elif after.phase in _WAITS and after.words != before.words:
            record(about, "GangWaiting", why)
        elif after.phase in HOLDING and before.phase not in HOLDING:
            waiting = len(members.waiting)
            record(about, "GangReserved", f"cards are reserved: {waiting} members may start")
        elif after.phase is GangPhase.STARTED is not before.phase:
            record(about, "GangStarted", f"{bound} members have a node, {members.gang.min} needed")

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
