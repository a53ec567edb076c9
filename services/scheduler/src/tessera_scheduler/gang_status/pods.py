"""The pods of PodGroups, those that have ended too: a status counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tessera_core.gang_status.groups import WRITTEN
from tessera_core.gang_status.koordinator import TIMEOUT
from tessera_core.gang_status.pod_counts import MemberPod, member_pod
from tessera_core.gangs.group_names import NamedGroup, named_group
from tessera_core.slices import Slices, for_each
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.reflectors import ReflectorFactory, Watch
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

ENDED: Final = {
    "fieldSelector": "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
}
"""Selects the pods that the scheduler's other watch does not show."""
_LEAVING_S: Final = 30.0
"""Seconds for which a pod that has ended counts before the watch of ended pods shows it."""
_decode = decoder(Pod)


class GroupPods:
    """Pods by their PodGroup; a handler of those that have not ended."""

    def __init__(self, clock: MonotonicClock) -> None:
        """Nothing is known yet."""
        self.changed: set[str] = set()
        """Ids of groups whose pods have changed; the reader takes them out."""
        self._clock = clock
        self._living: dict[str, tuple[str, MemberPod]] = {}
        """Pod's uid -> its group's id, and the pod."""
        self._ended: dict[str, tuple[str, MemberPod]] = {}
        self._leaving: dict[str, float] = {}
        """Uid of a pod that has ended, and that no watch of ended pods has shown -> until when it
        counts."""
        self._of: dict[str, set[str]] = {}

    def of(self, group: str) -> list[MemberPod]:
        """The pods of a group."""
        uids = self._of.get(group, ())
        return [(self._ended.get(uid) or self._living[uid])[1] for uid in sorted(uids)]

    def expire(self) -> None:
        """Forget pods that have ended and that were never shown among those that have."""
        now = self._clock.time()
        for uid in [uid for uid, until in self._leaving.items() if until <= now]:
            self._drop(uid)

    # -- pods that have not ended

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods that have not ended."""
        for uid in self._living.keys() - {item.uid for item in items}:
            self._drop(uid)
        yield from for_each(items, self.on_pod)

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        group = _group_of(item.member)
        if item.member is None or not group:
            self._drop(item.uid)
            return
        if item.uid in self._living and self._living[item.uid][0] != group:
            self._drop(item.uid)
        self._put(self._living, item.uid, group, member_pod(item.member, TIMEOUT))

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended: such a one counts on."""
        ended = item.member is not None and item.member.terminal
        if ended and item.uid in self._living and item.uid not in self._ended:
            self.on_pod(item)
            self._leaving[item.uid] = self._clock.time() + _LEAVING_S
        else:
            self._drop(item.uid)

    # -- pods that have ended

    def on_list(self, items: list[Pod | None], started: float, now: float) -> None:
        """Take all pods that have ended."""
        listed = {pod.metadata.uid: pod for pod in items if pod is not None}
        for uid in [each for each in self._ended if each not in listed]:
            self._drop_ended(uid)
        for pod in listed.values():
            self._end(pod)

    def on_event(self, change: WatchEventType, item: Pod | None, now: float) -> None:
        """Take one that was added, modified or deleted."""
        if item is None:
            return
        if change is WatchEventType.DELETED:
            self._drop_ended(item.metadata.uid)
            self._drop(item.metadata.uid)
        else:
            self._end(item)

    def _end(self, pod: Pod) -> None:
        uid, group = pod.metadata.uid, _group_of(pod)
        self._put(self._ended, uid, group, member_pod(pod))
        if uid in self._leaving:
            del self._leaving[uid], self._living[uid]

    # -- both

    def _put(
        self, where: dict[str, tuple[str, MemberPod]], uid: str, group: str, pod: MemberPod
    ) -> None:
        if where.get(uid) != (group, pod):
            where[uid] = group, pod
            self._of.setdefault(group, set()).add(uid)
            self.changed.add(group)

    def _drop(self, uid: str) -> None:
        self._leaving.pop(uid, None)
        self._forget(self._living, self._ended, uid)

    def _drop_ended(self, uid: str) -> None:
        self._forget(self._ended, self._living, uid)

    def _forget(
        self,
        where: dict[str, tuple[str, MemberPod]],
        other: dict[str, tuple[str, MemberPod]],
        uid: str,
    ) -> None:
        found = where.pop(uid, None)
        if found is None:
            return
        group = found[0]
        self.changed.add(group)
        if uid not in other:
            self._of[group].discard(uid)
            if not self._of[group]:
                del self._of[group]


def ended_pod_watch(reflectors: ReflectorFactory, pods: GroupPods) -> Watch:
    """A watch of the pods that have ended."""
    return reflectors.make(ListWatch(paths.PODS, read_ended, ENDED), pods, "ended pods")


def read_ended(raw: bytes | msgspec.Raw) -> Pod | None:
    """The pod, where it is of a group whose status is written. Raises msgspec.DecodeError."""
    pod = _decode(bytes(raw))
    return pod if _group_of(pod) else None


def _group_of(pod: Pod | None) -> str:
    named = None if pod is None else named_group(pod)
    if isinstance(named, NamedGroup) and named.origin in WRITTEN:
        return named.id
    return ""
