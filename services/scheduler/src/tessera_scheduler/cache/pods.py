"""The ledger kept in step with the pods of the API server.

What a list or a watch shows goes into the ledger, and out come alerts and pod events: released
cards, grants to restore, pods to read again. It promises that no event makes a grant vanish while
its pod lives: a grant that was changed or removed on a live pod stays as the ledger has it. It
makes no calls itself."""

from __future__ import annotations

from collections.abc import Sequence, Set

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.slices import Slices, for_each
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.alerts import Alert, AlertReason, Alerts
from tessera_scheduler.cache.outlived import OutlivedContainers
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodReader, PodSummary
from tessera_schema.grants import Grant


class PodCache:
    """Takes summaries of pods into the ledger."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        pod_reader: PodReader,
        alerts: Alerts,
        pod_events: PodEvents,
        outlived: OutlivedContainers,
    ) -> None:
        """The ledger is shared with the filter; only this and `outlived` write what is observed
        into it."""
        self._ledger = ledger
        self._pod_reader = pod_reader
        self._alerts = alerts
        self._pod_events = pod_events
        self._outlived = outlived

    def on_list(self, summaries: Sequence[PodSummary], started: float, now: float) -> Slices[None]:
        """Take a whole list, begun at `started`; nothing from before it may follow."""
        listed = {summary.uid for summary in summaries}.union(self._outlived.uids())
        yield
        taking = self._take(summaries, listed, started, now)
        yield from self._ledger.relist(listed, started, taking)

    def _take(
        self, summaries: Sequence[PodSummary], listed: Set[str], started: float, now: float
    ) -> Slices[None]:
        yield from for_each(summaries, lambda summary: self.on_update(summary, now))
        yield

        uids = [entry.grant.uid for entry in self._ledger.entries()]
        yield from for_each(uids, lambda uid: self._check(uid, listed, started))

    def _check(self, uid: str, listed: Set[str], started: float) -> None:
        entry = self._ledger.entry(uid)
        if uid in listed or entry is None:
            return
        if entry.since < started:
            self.on_delete(uid)
        elif entry.phase is AllocationPhase.BOUND:
            # bound and perhaps deleted while the list was made: no event will show it
            self._pod_events.doubted.publish(PodKey(entry.grant.namespace, entry.grant.name, uid))

    def on_update(self, summary: PodSummary, now: float) -> None:
        """Take a pod that was added or modified."""
        if summary.ended:
            self.on_delete(summary.uid)
            return
        if not summary.node:
            return
        self._alert_if_wrong(summary)
        if summary.unknown:
            self._ledger.block_node(summary.node, summary.uid, now)
        entry = self._ledger.entry(summary.uid)
        if entry is not None and summary.grant is None:
            self._on_grantless(summary, entry)
        elif self._ledger.observe(summary.observed, now):
            self._check_amounts(summary, entry)
        elif self._pod_reader.is_signed(summary.uid):
            # no alert yet: right after a resize, an event may still show the grant before it
            self._pod_events.grant_changed.publish(_key(summary))

    def on_delete(self, uid: str) -> None:
        """Take the end of a pod that is gone from the API server, or from what is listed of it."""
        entry = self._ledger.entry(uid)
        bound = entry is not None and entry.phase is AllocationPhase.BOUND
        self._ledger.ended(uid)
        self._end(uid, entry.grant if entry is not None and bound else None)

    def _end(self, uid: str, grant: Grant | None) -> None:
        self._pod_reader.forget(uid)
        self._pod_events.gone.publish(uid)
        if grant is not None:
            self._pod_events.released.publish(grant)

    def _check_amounts(self, summary: PodSummary, before: LedgerEntry | None) -> None:
        """The pod may hold other amounts than before, and may ask for yet others."""
        after = self._ledger.entry(summary.uid)
        if after is None:
            return
        if before is not None and after.grant.revision > before.grant.revision:
            self._pod_events.freed.publish()
        if summary.resize:
            self._pod_events.resize_requested.publish(_key(summary))

    def _on_grantless(self, summary: PodSummary, entry: LedgerEntry) -> None:
        """A pod that the ledger has is bound, and nothing on it counts."""
        match entry.phase:
            case AllocationPhase.RESERVED:
                self._ledger.forget(summary.uid)
                self._pod_events.freed.publish()
            case AllocationPhase.UNSETTLED if summary.node != entry.grant.node:
                self._ledger.resolve_binding(summary.uid, bound=False)
                self._pod_events.freed.publish()
            case AllocationPhase.BOUND if (
                self._pod_reader.is_signed(summary.uid) and not summary.unknown
            ):
                self._alert(summary, AlertReason.REMOVED, "has lost the grant that it was given")
                self._pod_events.grant_changed.publish(_key(summary))
            case (
                AllocationPhase.BOUND
                | AllocationPhase.BINDING
                | AllocationPhase.UNSETTLED
                | AllocationPhase.RELEASED
            ):
                pass  # an answer is under way, or the alert was raised before

    def _alert_if_wrong(self, summary: PodSummary) -> None:
        if summary.forged:
            self._alert(
                summary,
                AlertReason.FORGED,
                f"carries a grant that is not its own: {summary.forged}",
            )
        elif summary.unknown:
            self._alert(
                summary,
                AlertReason.UNREADABLE,
                f"cannot be read, so its node takes no more: {summary.remark}",
            )
        elif summary.unwritten:
            self._alert(
                summary, AlertReason.UNGRANTED, "is bound and asks for cards, and has no grant"
            )
        elif summary.remark:
            self._alert(
                summary, AlertReason.TAKEN_OVER, f"was placed by another system: {summary.remark}"
            )

    def _alert(self, summary: PodSummary, wrong: AlertReason, text: str) -> None:
        self._alerts.raise_(
            Alert(
                wrong=wrong,
                namespace=summary.namespace,
                name=summary.name,
                uid=summary.uid,
                node=summary.node,
                text=text,
            )
        )


def _key(summary: PodSummary) -> PodKey:
    return PodKey(summary.namespace, summary.name, summary.uid)
