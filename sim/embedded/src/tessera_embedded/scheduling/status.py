"""What the scheduler writes: the Binding where no extender does it, the pod's condition, Events."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import msgspec

from tessera_embedded.scheduling.types import PodInfo
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Body, Kube, Verb

_json = msgspec.json.Encoder().encode


class PodStatusWriter:
    """Writes what became of a pod. An Event or a condition that cannot be written is left out."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        """`clock` for the stamps."""
        self._kube = kube
        self._clock = clock
        self._number = count(1)
        self._said: dict[str, tuple[str, str]] = {}

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod ourselves. Raises TesseraError."""
        meta = pod.pod.metadata
        body = {
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }  # fmt: skip
        await self._kube.call(Verb.POST, f"{pod.path}/binding", body=_json(body))

    async def scheduled(self, pod: PodInfo, node: str) -> None:
        """The pod was bound."""
        self._said.pop(pod.uid, None)
        text = f"Successfully assigned {pod.pod.name} to {node}"
        await self._event(pod, "Normal", "Scheduled", "Binding", text)

    async def failed(self, pod: PodInfo, reason: str, message: str) -> None:
        """The pod waits: `reason` is Unschedulable or SchedulerError."""
        await self._event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        if self._said.get(pod.uid) == (reason, message):
            return
        condition = {
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": self._stamp("seconds"),
        }  # fmt: skip
        body = _json({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})
        try:
            await self._kube.call(
                Verb.PATCH, f"{pod.path}/status", body=body, kind=Body.STRATEGIC_PATCH
            )
        except TesseraError:
            return
        self._said[pod.uid] = reason, message

    def gone(self, uid: str) -> None:
        """Forget what was said of the pod."""
        self._said.pop(uid, None)

    async def _event(self, pod: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        meta = pod.pod.metadata
        namespace = meta.namespace or "default"
        body = {
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {
                "name": f"{meta.name}.{self._clock.time_ns():x}{next(self._number):x}",
                "namespace": namespace,
            },
            "eventTime": self._stamp("microseconds"), "type": kind, "reason": reason,
            "action": action, "note": note[:1024], "reportingInstance": "embedded",
            "reportingController": pod.pod.spec.scheduler_name,
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "name": meta.name, "namespace": namespace,
                "uid": meta.uid,
            },
        }  # fmt: skip
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        try:
            await self._kube.call(Verb.POST, path, body=_json(body))
        except TesseraError:
            return

    def _stamp(self, precision: str) -> str:
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        return now.isoformat(timespec=precision).replace("+00:00", "Z")
