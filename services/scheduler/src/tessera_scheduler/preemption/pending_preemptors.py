"""Pods that kube-scheduler was refused a node for, and since when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from tessera_core.scheduling.filter import FilterAnswer
from tessera_runtime.kube.binding import PodKey
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import Verdict


class PendingPreemptor(Struct, kw_only=True):
    """One of them."""

    key: PodKey
    priority: int
    since: float
    """Unix time of its first refusal."""
    not_before: float = 0
    """Unix time before which nobody is evicted for it."""
    gang: str = ""
    """Id of the gang that waits, of which the pod is a member; empty for a pod by itself."""

    @property
    def whose(self) -> str:
        """The pod's uid, or the gang's id."""
        return self.gang or self.key.uid


class PendingPreemptors:
    """Follows answers of filter."""

    def __init__(self, schedulers: Collection[str]) -> None:
        """Only pods that name one of these schedulers count."""
        self._schedulers = frozenset(schedulers)
        self._known: dict[str, PendingPreemptor] = {}

    def answered(self, answer: FilterAnswer, now: float) -> None:
        """Take an answer."""
        pod = answer.pod
        if pod is None or pod.spec.scheduler_name not in self._schedulers:
            return
        meta = pod.metadata
        if answer.verdict is not Verdict.WAITING or answer.reason is Reason.GANG_WAITING:
            self.forget(meta.uid)
        elif meta.uid not in self._known:
            self._known[meta.uid] = PendingPreemptor(
                key=PodKey(meta.namespace, meta.name, meta.uid),
                priority=pod.spec.priority or 0, since=now,
            )  # fmt: skip

    def forget(self, uid: str) -> None:
        """A pod that is bound, or gone."""
        self._known.pop(uid, None)

    def all(self) -> Iterator[PendingPreemptor]:
        """All of them."""
        yield from self._known.values()


def due(waiting: Iterable[PendingPreemptor], now: float, after_s: float) -> list[PendingPreemptor]:
    """Those that have waited long enough: the highest priority first, then the longest wait."""
    found = [each for each in waiting if now >= max(each.since + after_s, each.not_before)]
    return sorted(found, key=lambda each: (-each.priority, each.since, each.key.uid))
