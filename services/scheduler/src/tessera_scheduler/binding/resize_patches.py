"""The patches of live resizes, and those whose outcome is not known.

One patch writes the new grant, rewrites what the dialects' keys say of amounts, and takes the
request away; it applies to the very version of the pod that was read. So a patch whose outcome is
not known is settled by a read: the pod carries the new grant; or it has changed since, and the
patch can come no more; or it is as it was, and the same patch is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_runtime.errors import ApiConflict, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.patches import annotate
from tessera_scheduler.binding.grant_annotations import GrantAnnotations, Unwritable
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod
from tessera_schema.resizes import RESIZE_KEY, RESIZE_REFUSED_KEY

_WORDS_BYTES: Final = 2000


class _Sent(Struct, frozen=True):
    """A patch whose outcome is not known."""

    version: str
    """Of the pod, to which alone it applies."""
    old: Grant
    new: Grant


class ResizePatches:
    """Writes grants that change, and keeps the ledger's reservation until each is settled."""

    def __init__(
        self,
        *,
        kube: Kube,
        ledger: Ledger,
        annotations: GrantAnnotations,
        leadership: Leadership,
        call_s: float,
    ) -> None:
        """A call to the API server is given up after `call_s` seconds."""
        self._kube = kube
        self._ledger = ledger
        self._annotations = annotations
        self._leadership = leadership
        self._call_s = call_s
        self._sent: dict[str, _Sent] = {}

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""
        self._sent.pop(uid, None)

    def drop(self, uid: str) -> None:
        """No patch was sent, or it can come no more: give up the reservation."""
        self._sent.pop(uid, None)
        self._ledger.resized(uid, done=False)

    def settle(self, uid: str, version: str) -> tuple[Grant, Grant] | None:
        """The pod was read at this version, and the ledger has what it carries. The old and the new
        grant, where the read shows that a patch was written."""
        sent, entry = self._sent.get(uid), self._ledger.entry(uid)
        if sent is None or entry is None:
            return None
        if entry.grant == sent.new != sent.old:
            del self._sent[uid]
            return sent.old, sent.new
        if sent.version != version:
            self.drop(uid)
        return None

    async def refuse(self, name: PodKey, pod: Pod, why: str) -> bool:
        """Write why there is no other grant, instead of the request; False when the pod has changed
        meanwhile."""
        written = {RESIZE_KEY: None, RESIZE_REFUSED_KEY: why[:_WORDS_BYTES]}
        try:
            await self._annotate(name, pod, written)
        except ApiConflict:
            return False
        return True

    async def write(self, name: PodKey, pod: Pod, old: Grant, new: Grant) -> bool:
        """Write the new grant; False when that has to be tried again. Raises Unwritable, with the
        reservation given up, and ApiRefused."""
        unsettled = name.uid in self._sent
        if self._leadership.fence() < self._call_s:
            if not unsettled:
                self.drop(name.uid)
            return False
        try:
            written = self._annotations.changed(pod, old, new) if old != new else {}
        except Unwritable:
            if unsettled:
                return False
            self.drop(name.uid)
            raise
        if not await self._send(name, pod, _Sent(pod.metadata.resource_version, old, new), written):
            return False
        if old != new:
            self._annotations.sent(new, written)
            self._ledger.resized(name.uid, done=True)
        return True

    async def _send(self, name: PodKey, pod: Pod, sent: _Sent, written: Mapping[str, str]) -> bool:
        """Whether it is written. What is not known stays in `_sent`."""
        unsettled = name.uid in self._sent
        self._sent[name.uid] = sent
        try:
            await self._annotate(name, pod, {**written, RESIZE_KEY: None, RESIZE_REFUSED_KEY: None})
        except ApiConflict:
            return False  # a read shows whether the pod was changed by a former patch
        except ApiRefused:
            if unsettled:
                return False
            self.drop(name.uid)
            raise
        del self._sent[name.uid]
        return True

    async def _annotate(self, name: PodKey, pod: Pod, written: Mapping[str, str | None]) -> None:
        await annotate(
            self._kube, paths.pod(name.namespace, name.name), written, uid=name.uid,
            resource_version=pod.metadata.resource_version,
        )  # fmt: skip
