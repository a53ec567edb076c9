"""The ledger kept in step with the pods of the API server.

What a list or a watch shows goes into the ledger, and out of it comes what others must do: news of
released cards, alarms, grants to restore, pods to look at again. It promises that no event makes a
grant vanish while its pod lives: a grant that was changed or removed on a live pod stays as the
books have it. It makes no calls itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tessera_core.ledger.entries import LedgerEntry, ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.alarms import Alert, AlertReason, Alerts
from tessera_scheduler.cache.outlived import OutlivedContainers
from tessera_scheduler.cache.pod_reader import PodReader, PodSummary
from tessera_schema.grants import Grant


class PodEvents(Protocol):
    """What changes in the books lead to. All of it is quick and fails never."""

    def released(self, grant: Grant) -> None:
        """A bound pod's cards are free again."""
        ...

    def gone(self, uid: str) -> None:
        """A pod has ended, bound or not."""
        ...

    def doubt(self, pod: PodKey) -> None:
        """Only a quorum read can tell what has become of the pod."""
        ...

    def restore(self, pod: PodKey) -> None:
        """The pod lost its grant, or bears another one than it has."""
        ...

    def resize(self, pod: PodKey) -> None:
        """A bound pod asks for other amounts."""
        ...

    def freed(self) -> None:
        """Something became free in a way that Kubernetes does not show."""
        ...


class PodCache:
    """Takes in what is seen of pods."""

    def __init__(
        self, ledger: Ledger, reader: PodReader, alarms: Alerts, consequences: PodEvents,
        outlived: OutlivedContainers,
    ) -> None:  # fmt: skip
        """The ledger is shared with the filter; only this and `outlived` write what is seen into
        it."""
        self._ledger = ledger
        self._reader = reader
        self._alarms = alarms
        self._then = consequences
        self._outlived = outlived

    # -- pods

    def relisted(self, sights: Iterable[PodSummary], started: float, now: float) -> None:
        """A whole list, begun at `started`; nothing from before it may follow."""
        listed = set(self._outlived.uids())
        for sight in sights:
            self._take(sight, now)
            listed.add(sight.uid)
        before = [(e.grant, e.phase is AllocationPhase.BOUND) for e in self._ledger.entries()]
        self._ledger.relist([ObservedPod(uid=uid, grant=None) for uid in listed], started, now)
        for grant, bound in before:
            if self._ledger.entry(grant.uid) is None:
                self._end(grant.uid, grant if bound else None)
            elif grant.uid not in listed and bound:
                # bound and perhaps deleted while the list was made: no event will tell
                self._then.doubt(_pod(grant))

    def changed(self, sight: PodSummary, now: float) -> None:
        """A pod was added or modified."""
        self._take(sight, now)

    def deleted(self, uid: str) -> None:
        """A pod is gone from the API server, or from what is listed of it: it has ended."""
        entry = self._ledger.entry(uid)
        bound = entry is not None and entry.phase is AllocationPhase.BOUND
        self._ledger.ended(uid)
        self._end(uid, entry.grant if entry is not None and bound else None)

    def _end(self, uid: str, grant: Grant | None) -> None:
        self._reader.forget(uid)
        self._then.gone(uid)
        if grant is not None:
            self._then.released(grant)

    def _take(self, sight: PodSummary, now: float) -> None:
        if sight.ended:
            self.deleted(sight.uid)
            return
        if not sight.node:
            return
        self._tell(sight)
        if sight.unknown:
            self._ledger.block_node(sight.node, sight.uid, now)
        entry = self._ledger.entry(sight.uid)
        if entry is not None and sight.grant is None:
            self._grantless(sight, entry)
        elif self._ledger.observe(sight.seen, now):
            self._resized(sight, entry)
        elif self._reader.is_ours(sight.uid):
            self._alarm(sight, AlertReason.CHANGED, "bears another grant than it was given")
            self._then.restore(_named(sight))

    def _resized(self, sight: PodSummary, before: LedgerEntry | None) -> None:
        """What it holds may be another amount than before, and yet another may be asked."""
        after = self._ledger.entry(sight.uid)
        if after is None:
            return
        if before is not None and after.grant.revision > before.grant.revision:
            self._then.freed()
        if sight.resize:
            self._then.resize(_named(sight))

    def _grantless(self, sight: PodSummary, entry: LedgerEntry) -> None:
        """A pod that the books know is bound, and nothing on it counts."""
        match entry.phase:
            case AllocationPhase.RESERVED:
                self._ledger.forget(sight.uid)
                self._then.freed()
            case AllocationPhase.UNSETTLED if sight.node != entry.grant.node:
                self._ledger.resolve_binding(sight.uid, bound=False)
                self._then.freed()
            case AllocationPhase.BOUND if self._reader.is_ours(sight.uid) and not sight.unknown:
                self._alarm(sight, AlertReason.REMOVED, "has lost the grant that it was given")
                self._then.restore(_named(sight))
            case (
                AllocationPhase.BOUND
                | AllocationPhase.BINDING
                | AllocationPhase.UNSETTLED
                | AllocationPhase.RELEASED
            ):
                pass  # an answer is under way, or somebody was told before

    def _tell(self, sight: PodSummary) -> None:
        if sight.forged:
            self._alarm(
                sight, AlertReason.FORGED, f"bears a grant that is not its own: {sight.forged}"
            )
        elif sight.unknown:
            self._alarm(
                sight,
                AlertReason.UNREADABLE,
                f"cannot be read, so its node takes no more: {sight.told}",
            )
        elif sight.unwritten:
            self._alarm(
                sight, AlertReason.UNGRANTED, "is bound and asks for cards, and has no grant"
            )
        elif sight.told:
            self._alarm(
                sight, AlertReason.TAKEN_OVER, f"was placed by another system: {sight.told}"
            )

    def _alarm(self, sight: PodSummary, wrong: AlertReason, text: str) -> None:
        self._alarms.raise_(
            Alert(
                wrong=wrong,
                namespace=sight.namespace,
                name=sight.name,
                uid=sight.uid,
                node=sight.node,
                text=text,
            )
        )


def _pod(grant: Grant) -> PodKey:
    return PodKey(grant.namespace, grant.name, grant.uid)


def _named(sight: PodSummary) -> PodKey:
    return PodKey(sight.namespace, sight.name, sight.uid)
