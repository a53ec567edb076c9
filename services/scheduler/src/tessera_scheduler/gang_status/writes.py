"""Sends patches of statuses: only while this replica surely leads, and never against another
writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tessera_core.gang_status.groups import StatusGroup
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.patches import annotate
from tessera_scheduler.gang_status.objects import QUEUES, group_path
from tessera_schema.kube import Pod

MANAGER: Final = "tessera-scheduler"
"""Field manager of these writes, which sets them apart from those of others."""
_AT_ONCE: Final = 16
StoreAnswer = Callable[[StatusGroup, bytes], object]
"""Called with a group that was written, and the object afterwards."""
_log = logs.named("tessera.scheduler.gangs.status")


class StatusWrites:
    """Writes statuses."""

    def __init__(self, kube: Kube, fence: Callable[[], float], call_s: float) -> None:
        """`fence` gives the seconds for which this replica surely leads; a call to the API server
        is given up after `call_s` seconds."""
        self._kube = kube
        self._fence = fence
        self._call_s = call_s
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def may(self) -> bool:
        """Whether a call that begins now ends before another replica may lead."""
        return self._fence() > self._call_s

    async def all(self, patches: Iterable[tuple[StatusGroup, bytes]], put: StoreAnswer) -> set[str]:
        """Write all of these; `put` gets each object as it is afterwards. Gives the ids of
        those that were not written and have to be tried again."""
        failed: set[str] = set()

        async def one(group: StatusGroup, patch: bytes) -> None:
            async with self._slots:
                answer = await self._patch(group_path(group), patch)
            if answer is None:
                failed.add(group.id)
            elif answer:
                put(group, answer)

        async with asyncio.TaskGroup() as tasks:
            for group, patch in patches:
                tasks.create_task(one(group, patch), name="status of a PodGroup")
        return failed

    async def queue(self, name: str, allocated: dict[str, str | None]) -> bool:
        """Write what is allocated in a queue, by its status subresource; whether that is done."""
        patch = msgspec.json.encode({"status": {"allocated": allocated}})
        return await self._patch(f"{QUEUES}/{name}/status", patch) is not None

    async def quota(self, path: str, patch: bytes) -> bool:
        """Write what is used of the ElasticQuota at the path; whether that is done, or it is
        gone."""
        return await self._patch(path, patch) is not None

    async def mark(self, pod: Pod, key: str) -> bool:
        """Set an annotation of a pod to `true`; whether that is done, or the pod is gone."""
        meta = pod.metadata
        if not self.may:
            return False
        try:
            path = paths.pod(meta.namespace or "default", meta.name)
            await annotate(self._kube, path, {key: "true"}, uid=meta.uid)
        except (ApiNotFound, ApiConflict):
            return True
        except (ApiRefused, Transient) as e:
            _log.warning("member not annotated", pod=pod.name, why=str(e))
            return False
        return True

    async def _patch(self, path: str, patch: bytes) -> bytes | None:
        """The object afterwards; empty where it is gone, None where it is to be tried again."""
        if not self.may:
            return None
        try:
            return await self._kube.call(
                Verb.PATCH, path, query={"fieldManager": MANAGER}, body=patch,
                kind=Body.MERGE_PATCH,
            )  # fmt: skip
        except ApiNotFound:
            return b""
        except ApiConflict:
            return None  # the watch shows what has changed
        except (ApiRefused, Transient) as e:
            _log.warning("status not written", path=path, why=str(e))
            return None
