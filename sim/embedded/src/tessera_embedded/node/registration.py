"""A node's own objects: the Node and its Lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NoReturn

import msgspec

from tessera_embedded.node.pod_status import stamp
from tessera_embedded.node.settings import NodeDescription
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused, TesseraError, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb

_LEASES: Final = "kube-node-lease"
_RETRY_S: Final = 0.5
_json = msgspec.json.Encoder().encode


class Registration:
    """Says that the node is there."""

    def __init__(self, kube: Kube, about: NodeDescription, clock: Clock) -> None:
        """Nothing is said yet."""
        self._kube = kube
        self._about = about
        self._clock = clock

    async def register(self) -> None:
        """Make the Node, ready for pods. Raises TesseraError."""
        about = self._about
        labels = {"kubernetes.io/hostname": about.name, "kubernetes.io/os": "linux", **about.labels}
        metadata = {"name": about.name, "labels": labels, "annotations": about.annotations}
        made = _json({"metadata": metadata, "spec": {}})
        with suppress(ApiConflict):
            await self._kube.call(Verb.POST, paths.NODES, body=made)
        now = stamp(self._clock.time())
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }  # fmt: skip
        status = {
            "capacity": about.capacity, "allocatable": about.capacity, "conditions": [ready],
            "addresses": [{"type": "Hostname", "address": about.name}],
            "nodeInfo": {"kubeletVersion": "embedded", "operatingSystem": "linux"},
        }  # fmt: skip
        path = f"{paths.node(about.name)}/status"
        body = _json({"status": status})
        await self._kube.call(Verb.PATCH, path, body=body, kind=Body.STRATEGIC_PATCH)
        # Kubernetes' node controller takes the taint of a new node away once it is ready.
        untainted = b'{"spec":{"taints":null}}'
        await self._kube.call(
            Verb.PATCH, paths.node(about.name), body=untainted, kind=Body.MERGE_PATCH
        )

    async def beat(self) -> NoReturn:
        """Renew the Lease for ever."""
        while True:
            try:
                await self._renew()
            except TesseraError:
                await asyncio.sleep(_RETRY_S)
                continue
            await asyncio.sleep(self._about.heartbeat_s)

    async def _renew(self) -> None:
        name = self._about.name
        now = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="microseconds")
        spec = {
            "holderIdentity": name, "leaseDurationSeconds": 40,
            "renewTime": now.replace("+00:00", "Z"),
        }  # fmt: skip
        leases = paths.in_group("coordination.k8s.io", "v1", "leases", namespace=_LEASES)
        body = _json({"spec": spec})
        try:
            await self._kube.call(Verb.PATCH, f"{leases}/{name}", body=body, kind=Body.MERGE_PATCH)
        except ApiNotFound:
            made = _json({"metadata": {"name": name, "namespace": _LEASES}, "spec": spec})
            await self._kube.call(Verb.POST, leases, body=made)


async def insist(write: Callable[[], Awaitable[object]]) -> None:
    """Try until it is written, or definitely cannot be: the pod or the node is gone."""
    while True:
        try:
            await write()
        except Transient:
            await asyncio.sleep(_RETRY_S)
        except ApiRefused:
            return
        else:
            return
