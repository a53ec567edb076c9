"""One node at a time, by a Lease that goes from node to node.

It does not run out. The node that holds it releases it once its containerd answers again; one that
failed, or died on the way, holds it on, so that no further node is changed until somebody has had a
look. Why it failed is an annotation of the Lease; taking that away has the node try again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_schema.json_codec import decoder

FAILED: Final = "tessera.dev/failed"
"""Why the node that holds the Lease could not be changed."""


class TurnMeta(Struct, frozen=True, rename="camel"):
    """`metadata` of the Lease."""

    resource_version: str
    annotations: dict[str, str] | None = None


class TurnSpec(Struct, frozen=True, rename="camel"):
    """`spec` of the Lease."""

    holder_identity: str | None = None


class TurnLease(Struct, frozen=True):
    """The Lease, as far as it is read."""

    metadata: TurnMeta
    spec: TurnSpec = TurnSpec()

    @property
    def holder(self) -> str:
        """The node whose turn it is; empty = nobody's."""
        return self.spec.holder_identity or ""

    @property
    def failed(self) -> str:
        """Why the holder failed; empty = it did not."""
        return (self.metadata.annotations or {}).get(FAILED, "")


_read: Final = decoder(TurnLease)


class NodeTurn:
    """The Lease, as one node sees it."""

    def __init__(self, kube: Kube, namespace: str, name: str, node: str, clock: Clock) -> None:
        """Nothing is called before a method is."""
        self.name = name
        self._kube = kube
        self._namespace = namespace
        self._node = node
        self._clock = clock
        self._may_hold = True
        """Until the Lease was read: a former process may have taken it."""

    async def take(self) -> str:
        """Take the Lease; why this node may not be changed now, empty when it may. Raises
        ApiRefused, Transient."""
        lease = await self.read()
        if lease.failed:
            return (
                f"stopped: {lease.holder}: {lease.failed}. Then: kubectl -n {self._namespace} "
                f"annotate lease {self.name} {FAILED}-"
            )
        if lease.holder == self._node:
            self._may_hold = True
            return ""
        if lease.holder:
            return f"it is the turn of node {lease.holder}"
        now = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="microseconds")
        spec = {"holderIdentity": self._node, "acquireTime": now.replace("+00:00", "Z")}
        self._may_hold = True
        try:
            await self.change(lease, {"spec": spec})
        except ApiConflict:
            return "another node was faster"
        return ""

    async def release(self) -> None:
        """Let the next node have it, if this one holds it. Raises ApiRefused, Transient."""
        if not self._may_hold:
            return
        lease = await self.read()
        if lease.holder == self._node:
            metadata = {"annotations": {FAILED: None}}
            await self.change(lease, {"spec": {"holderIdentity": ""}, "metadata": metadata})
        self._may_hold = False

    async def fail(self, why: str) -> None:
        """Hold it, and say why. Raises ApiRefused, Transient."""
        lease = await self.read()
        if lease.holder == self._node:
            await self.change(lease, {"metadata": {"annotations": {FAILED: why}}})

    async def read(self) -> TurnLease:
        """The Lease as it is. Raises ApiRefused, Transient."""
        answer = await self._kube.call(Verb.GET, self._path())
        try:
            return _read(answer)
        except msgspec.DecodeError as e:
            raise ApiRefused(200, "", f"not a Lease: {e}") from e

    async def change(self, lease: TurnLease, change: Mapping[str, Mapping[str, object]]) -> None:
        """Change the Lease as it was read. Raises ApiConflict where it is not so any more,
        ApiRefused, Transient."""
        version = {"resourceVersion": lease.metadata.resource_version}
        body = {**change, "metadata": {**change.get("metadata", {}), **version}}
        await self._kube.call(
            Verb.PATCH, self._path(), body=msgspec.json.encode(body), kind=Body.MERGE_PATCH
        )

    def _path(self) -> str:
        return paths.in_group(
            "coordination.k8s.io", "v1", "leases", namespace=self._namespace, name=self.name
        )
