"""Live resizes: a bound pod that bears a question (`tessera_schema.resizes`) gets its next grant.

The books are changed first and hold enough for the old and the new grant until it is known which of
them the pod bears. One patch writes the new grant, rewrites what the dialects' keys say of amounts,
and takes the question away; it applies to the very version of the pod that was read. So a patch
whose outcome is not known is told by reading: the pod bears the new grant; or it has changed since,
and the patch can come no more; or it is as it was, and the same patch is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.grants.resize import resized
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiRefused
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.patches import annotate
from tessera_runtime.tracing import tracing
from tessera_scheduler.binding.grant_annotations import Unwritable, changed_annotations
from tessera_scheduler.binding.quorum_read import PodReadState, QuorumReader
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.events import trace_of
from tessera_scheduler.keys.signing_keys import SigningKeys
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.annotation_keys import TERM_KEY
from tessera_schema.grants import GRANT_KEY, Grant, Share
from tessera_schema.kube import Pod
from tessera_schema.resizes import RESIZE_KEY, RESIZE_REFUSED_KEY, decode_resize

_log: Final = logs.named("tessera.scheduler.resizing")
_WORDS_BYTES: Final = 2000


class ResizerDependencies(Struct, frozen=True, kw_only=True):
    """What resizing works with."""

    kube: Kube
    registry: DialectRegistry
    ledger: Ledger
    looking: QuorumReader
    reader: PodReader
    keys: SigningKeys
    measures: SchedulerMetrics
    clock: Clock
    holds: Callable[[], bool]
    """Whether nobody else may write."""
    fence: Callable[[], float]
    """Seconds for which this replica surely leads."""
    term: Callable[[], str]
    """Under which a grant is written: `Leadership.term`."""
    freed: Callable[[], None]
    tell: Callable[[PodKey, str, str], None]
    """An event on the pod: reason and words."""


class _Sent(Struct, frozen=True):
    """A patch whose outcome is not known."""

    version: str
    """Of the pod, to which alone it applies."""
    old: Grant
    new: Grant


class Resizer:
    """Answers the questions of bound pods; only the replica that holds the Lease does."""

    def __init__(self, tools: ResizerDependencies, *, call_s: float) -> None:
        """A call to the API server is given up after `call_s` seconds."""
        self._tools = tools
        self._call_s = call_s
        self._sent: dict[str, _Sent] = {}

    def gone(self, uid: str) -> None:
        """The pod has ended."""
        self._sent.pop(uid, None)

    async def resize(self, name: PodKey) -> bool:
        """True when there is nothing left to do. Raises ApiRefused and Passing."""
        tools = self._tools
        if not tools.holds():
            self._drop(name.uid)  # the one who holds the Lease has seen it too
            return True
        found = await tools.looking.read(name)
        self._settle(name, found.version)
        entry = tools.ledger.entry(name.uid)
        if found.state is not PodReadState.OURS or found.pod is None or entry is None:
            return True
        question = found.pod.metadata.annotations.get(RESIZE_KEY)
        if question is None or not self._bears(found.pod, entry):
            return True  # a grant that is restored brings the question here again
        with tracing.span(
            "tessera.scheduler.resize", trace_of(found.pod.metadata.annotations),
            pod=f"{name.namespace}/{name.name}", node=entry.grant.node,
        ) as span:  # fmt: skip
            grant = entry.pending or self._judged(question, entry.grant)
            if isinstance(grant, str):
                span.failed(grant)
                return await self._refuse(name, found.pod, grant)
            return await self._write(name, found.pod, entry.grant, grant)

    # -- what is known

    def _settle(self, name: PodKey, version: str) -> None:
        """The pod was read, and the books know what it bears."""
        sent, entry = self._sent.get(name.uid), self._tools.ledger.entry(name.uid)
        if sent is None or entry is None:
            return
        if entry.grant == sent.new != sent.old:
            del self._sent[name.uid]
            self._tell(name, sent.old, sent.new)
        elif sent.version != version:
            self._drop(name.uid)

    def _drop(self, uid: str) -> None:
        """No patch was sent, or it can come no more."""
        self._sent.pop(uid, None)
        self._tools.ledger.resized(uid, done=False)

    def _bears(self, pod: Pod, entry: LedgerEntry) -> bool:
        """Whether it shows the grant that the books have, signed."""
        reader = self._tools.reader
        return (
            entry.phase is AllocationPhase.BOUND and reader.is_ours(entry.grant.uid)
            and reader.sight(pod).grant == entry.grant
        )  # fmt: skip

    # -- judging

    def _judged(self, question: str, grant: Grant) -> Grant | str:
        """The next grant, reserved; or why there is none."""
        tools = self._tools
        try:
            asked = decode_resize(question)
        except msgspec.DecodeError as e:
            return f"annotation {RESIZE_KEY}: {e}: write it as docs/resizes.md says"
        made = resized(grant, asked, tools.registry.vendors)
        if isinstance(made, str) or made == grant:
            return made
        refusal = tools.ledger.resize(made)
        return made if refusal is None else refusal.message

    # -- writing

    async def _refuse(self, name: PodKey, pod: Pod, why: str) -> bool:
        written = {RESIZE_KEY: None, RESIZE_REFUSED_KEY: why[:_WORDS_BYTES]}
        try:
            await self._annotate(name, pod, written)
        except ApiConflict:
            return False
        self._tools.measures.resizes.labels("refused").inc()
        self._tools.tell(name, "ResizeRefused", why)
        _log.info("resize refused", pod=f"{name.namespace}/{name.name}", why=why)
        return True

    async def _write(self, name: PodKey, pod: Pod, old: Grant, new: Grant) -> bool:
        tools, unsettled = self._tools, name.uid in self._sent
        if tools.fence() < self._call_s:
            if not unsettled:
                self._drop(name.uid)
            return False
        try:
            written = self._written(pod, old, new)
        except Unwritable as e:
            if unsettled:
                return False
            self._drop(name.uid)
            return await self._refuse(name, pod, str(e))
        if not await self._sends(
            name, pod, _Sent(pod.metadata.resource_version, old, new), written
        ):
            return False
        if old != new:
            tools.reader.signed(new, written[GRANT_KEY])
            tools.ledger.resized(name.uid, done=True)
            self._tell(name, old, new)
        return True

    async def _sends(self, name: PodKey, pod: Pod, sent: _Sent, written: Mapping[str, str]) -> bool:
        """Whether it is written. What is not known stays in `_sent`."""
        unsettled = name.uid in self._sent
        self._sent[name.uid] = sent
        try:
            await self._annotate(name, pod, {**written, RESIZE_KEY: None, RESIZE_REFUSED_KEY: None})
        except ApiConflict:
            return False  # reading tells whether the pod has changed by a former patch
        except ApiRefused:
            if unsettled:
                return False
            self._drop(name.uid)
            raise
        del self._sent[name.uid]
        return True

    def _written(self, pod: Pod, old: Grant, new: Grant) -> dict[str, str]:
        tools = self._tools
        if old == new:
            return {}
        written = changed_annotations(
            tools.registry, tools.ledger, tools.keys.signer, pod, (old, new), tools.clock
        )
        return {**written, TERM_KEY: tools.term()}

    async def _annotate(self, name: PodKey, pod: Pod, written: Mapping[str, str | None]) -> None:
        await annotate(
            self._tools.kube, paths.pod(name.namespace, name.name), written, uid=name.uid,
            resource_version=pod.metadata.resource_version,
        )  # fmt: skip

    def _tell(self, name: PodKey, old: Grant, new: Grant) -> None:
        pairs = zip(old.shares, new.shares, strict=True)
        words = "; ".join(_words(a, b) for a, b in pairs if a != b)
        self._tools.measures.resizes.labels("done").inc()
        self._tools.freed()
        self._tools.tell(name, "Resized", words)
        _log.info("resized", pod=f"{name.namespace}/{name.name}", uid=name.uid, what=words)


def _words(old: Share, new: Share) -> str:
    return (
        f"container {new.container}, card {new.index}: {old.memory_mib} -> {new.memory_mib} MiB, "
        f"{old.cores_percent:g} -> {new.cores_percent:g} % of cores"
    )
