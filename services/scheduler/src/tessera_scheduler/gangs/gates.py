"""Opens scheduling gates of Tessera's: one patch a pod, repeated until a watch shows it open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.group_names import ADMISSION_GATE
from tessera_core.slices import Slices
from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.events import EventRecorder, ObjectRef
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.retry_queue import RetryQueue
from tessera_schema.kube import Pod

WAITING_REASON: Final = "GangWaiting"
"""Reason of Events on pods that wait for their gang."""
_OPEN: Final = {"schedulingGates": [{"$patch": "delete", "name": ADMISSION_GATE}]}
_log = logs.named("tessera.scheduler.gates")


class GateOpener:
    """Opens gates while nobody else may. Opening one twice, or that of a pod that is gone, does
    nothing; the pod's uid is a precondition, so that another pod of its name keeps its gate."""

    def __init__(
        self, kube: Kube, leadership: Leadership, retry_queue: RetryQueue, recorder: EventRecorder
    ) -> None:
        """`retry_queue` bounds how many are opened at a time."""
        self._kube = kube
        self._leadership = leadership
        self._retry_queue = retry_queue
        self._recorder = recorder
        self._reported: dict[str, str] = {}
        """Pod's uid -> why its gate stays closed, as an Event on it says."""
        self._wanted: dict[str, Pod] = {}
        """Pod's uid -> the pod, from the wish to open its gate until a watch shows it open."""

    def open(self, pods: Iterable[Pod]) -> None:
        """Open these pods' gates soon."""
        for pod in pods:
            uid = pod.metadata.uid
            if uid not in self._wanted and self._leadership.holds:
                self._wanted[uid] = pod
                self._retry_queue.add("open gate", uid, partial(self._open, pod))

    def forget(self, uid: str) -> None:
        """The pod has no gate, or is gone."""
        self._wanted.pop(uid, None)

    def only(self, uids: Iterable[str]) -> None:
        """No other pods have gates."""
        for uid in self._wanted.keys() - set(uids):
            del self._wanted[uid]

    def report(self, stuck: Iterable[tuple[Pod, str]]) -> None:
        """These pods wait for somebody to act: an Event on each of them with a gate says what for,
        since kube-scheduler, which does not try them, says nothing."""
        before, self._reported = self._reported, {}
        for pod, why in stuck:
            meta = pod.metadata
            if is_gated(pod):
                self._reported[meta.uid] = why
                if before.get(meta.uid) != why:
                    about = ObjectRef("Pod", meta.name, meta.namespace or "default", meta.uid)
                    self._recorder.record(about, WAITING_REASON, why, warning=True)

    async def _open(self, pod: Pod) -> bool:
        meta = pod.metadata
        if not self._leadership.holds:  # the one that leads decides again
            self.forget(meta.uid)
            return True
        if meta.uid not in self._wanted:
            return True
        body = msgspec.json.encode({"metadata": {"uid": meta.uid}, "spec": _OPEN})
        path = paths.pod(meta.namespace or "default", meta.name)
        try:
            await self._kube.call(Verb.PATCH, path, body=body, kind=Body.STRATEGIC_PATCH)
        except ApiNotFound:
            return True
        except ApiRefused as e:  # another pod has its name now, or the right is missing
            _log.warning("gate not opened", pod=pod.name, why=str(e))
            return False
        return True


class LeftGates:
    """The gates that are left where gangs do not start whole (any more): all are opened."""

    def __init__(self, opener: GateOpener) -> None:
        self._opener = opener

    def on_pod_list(self, items: Sequence[PodSummary]) -> Slices[None]:
        """Take all pods; a replica that takes over lists them once it may open gates."""
        gated = {
            item.uid: item.member for item in items
            if item.member is not None and is_gated(item.member)
        }  # fmt: skip
        self._opener.only(gated)
        yield
        self._opener.open(gated.values())

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        if item.member is None or item.ended or not is_gated(item.member):
            self.on_pod_gone(item)
            return
        self._opener.open((item.member,))

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended."""
        self._opener.forget(item.uid)
