"""Who holds what: the ledger, rebuilt from the pods of the API server, plus what is assumed.

Every change of what is held goes through `_hold` and `_release`, and so through `holdings`.
The ledger promises that `assume` never takes a card beyond its memory, cores or slots, and that
a grant is released only when its pod is gone or terminal, or was definitely never bound.
It does not look at clocks or the network: callers report what happened and when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy as copy_of

from tessera_core.admission.allowances import Allowed, allowed_by
from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.shadow_cards import ShadowCards
from tessera_core.grants.resize import follows
from tessera_core.ledger.change_log import ChangePlace
from tessera_core.ledger.entries import LedgerEntry, ObservedPod, TransactionRefused
from tessera_core.ledger.entry_checks import check_entry, new_entry, refusal, relink_renamed_cards
from tessera_core.ledger.holdings import LedgerHoldings
from tessera_core.ledger.memory_lending import MemoryNeeds
from tessera_core.ledger.promises import LEAST, CardPromise, Withheld, withheld, withholding
from tessera_core.ledger.resize import entry_covering_both
from tessera_core.ledger.tombstones import BlockedNodes, Tombstones
from tessera_core.machines.allocation import (
    AllocationPhase,
    BindingRefused,
    Bound,
    Ended,
    Event,
    Expired,
    OutcomeUnknown,
    Sent,
    advance,
)
from tessera_core.quota.accounting import QuotaAccounting
from tessera_core.quota.allowance import Allowance, QuotaUsage, Uses
from tessera_core.slices import Slices, for_each
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.quotas import Limit


class Ledger:
    """The ledger of a cluster."""

    def __init__(self) -> None:
        """Empty: give it the nodes, then the pods, before anything is assumed."""
        self.fleet = Fleet()
        """For reading; only the ledger writes to it."""
        self.generation = 0
        """Changes whenever an answer about room may change."""
        self.promises: tuple[CardPromise, ...] = ()
        """Set by `set_promises`."""
        self._quota = QuotaAccounting()
        self._holdings = LedgerHoldings(self.fleet, self._quota)
        self._entries: Mapping[str, LedgerEntry] = self._holdings.entries
        self._ends = Tombstones()
        self._unreadable = BlockedNodes(self.fleet)
        self._copied_at: ChangePlace | None = None
        """Where the log of changes was when this copy was made; None = it is no copy."""

    def on_change(self, call: Callable[[str], object]) -> None:
        """Call this, alone, with the uid of each pod whose page comes, goes or counts otherwise."""
        self._holdings.changed = call

    # -- reading

    def snapshot(self) -> Ledger:
        """A copy for reading alone, which later changes of what is held leave alone. Limits are
        those of the ledger."""
        made = copy_of(self)
        made.fleet, made._entries = self.fleet.snapshot(), dict(self._entries)
        made._copied_at = self.changes
        return made

    @property
    def changes(self) -> ChangePlace:
        """How far the pods have changed whose page comes, goes or counts otherwise: which ones did
        between two ledgers, of which one is a copy of the other, is the difference of the two."""
        return self._copied_at or self._holdings.changes.here()

    def entry(self, uid: str) -> LedgerEntry | None:
        """The ledger's entry of a pod."""
        return self._entries.get(uid)

    def entries(self) -> Iterator[LedgerEntry]:
        """All pages."""
        yield from self._entries.values()

    def on(self, node: str) -> Iterator[LedgerEntry]:
        """The pages of the pods that hold cards of a node."""
        yield from self._holdings.on(node)

    def has_ended(self, uid: str) -> bool:
        """True for a pod that is known to be gone or terminal."""
        return uid in self._ends

    def charges_on(self, node: str) -> Mapping[str, Charge]:
        """Card id -> sum of charges on a node, whether the cards are there or not."""
        return self._holdings.charges_on(node)

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's quota leaves its next pod."""
        return self._quota.allowance(namespace)

    def own_allowance(self, limit: Limit) -> Allowance:
        """What this one of the limits alone holds its group to."""
        return self._quota.own_allowance(limit)

    # -- nodes and limits

    def put_node(self, node: str, cards: Sequence[Card]) -> None:
        """Add a node or replace its cards. What is held on it stays held: by the card's id, or,
        when the card got another id, by its vendor and index."""
        self.fleet.put(node, cards)
        self._unreadable.mark(node)
        self._holdings.reattach(node)
        self.generation += 1

    def remove_node(self, node: str) -> None:
        """A node left. Its grants stay until their pods are gone."""
        self.fleet.remove(node)
        self.generation += 1

    def set_silent(self, silent: Mapping[str, frozenset[str]]) -> None:
        """Node -> vendors whose agent is silent there: no pod is placed on their cards, and what is
        held of them stays held. Nodes that are not named stay as they are."""
        self.fleet.set_silent(silent)
        self.generation += 1

    def set_reserved(self, reserved: tuple[ShadowCards, ...]) -> None:
        """Cards that gangs in line will get: others are placed there only if they may
        (`Fleet.opened`). What is held of them stays held."""
        if reserved != self.fleet.reserved:
            self.fleet.set_reserved(reserved)
            self.generation += 1

    def set_memory_needs(self, node: str, needs: MemoryNeeds) -> bool:
        """See `MemoryLending.set_needs`."""
        grown = self._holdings.lending.set_needs(node, needs, self.on(node))
        self.generation += grown is not None
        return bool(grown)

    def set_promises(self, promises: tuple[CardPromise, ...]) -> bool:
        """What is promised to those that others leave for; True when that was otherwise before."""
        changed = promises != self.promises
        self.promises = promises
        self.generation += changed
        return changed

    def withheld_from(
        self, whose: Collection[str], priority: int, *, all_gone: bool = False
    ) -> Withheld:
        """See `tessera_core.ledger.promises.withheld`."""
        if not self.promises:
            return {}
        return withheld(self.promises, self.entry, whose, priority, all_gone=all_gone)

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Replace all limits of all namespaces."""
        self._quota.set_limits(limits)
        self.generation += 1

    def set_namespaces(self, labels: Mapping[str, Mapping[str, str]]) -> bool:
        """All namespaces with their labels, which limits may select; True when that changed what
        is limited."""
        changed = self._quota.set_namespaces(labels)
        self.generation += changed
        return changed

    def allowed_in(self, namespace: str) -> Allowed:
        """The ways around a share's limits that the namespace's labels allow."""
        return allowed_by(self._quota.labels_of(namespace))

    def resolved(self, limit: Limit) -> Limit:
        """The limit with the namespaces that it selects, as far as they are known."""
        return self._quota.resolved(limit)

    def used(self, limit: Limit) -> QuotaUsage:
        """What the limit's group uses of what it counts."""
        return self._quota.used(limit)

    @property
    def lent(self) -> int:
        """Changes whenever what quotas lend to each other does."""
        return self._quota.lent

    def set_pending_request(self, uid: str, namespace: str, uses: Uses) -> None:
        """A waiting pod asks for this much: what its groups have lent of it is asked back."""
        if uid not in self._ends and uid not in self._entries:
            self.generation += self._quota.set_pending(uid, namespace, uses)

    def block_node(self, node: str, uid: str, now: float) -> None:
        """What a pod holds cannot be read: until it ends or can be read, nothing may be placed
        next to it."""
        if uid not in self._ends:
            self._unreadable.add(uid, node, now)
            self.generation += 1

    # -- our own decisions

    def assume(self, grants: Sequence[Grant], now: float) -> TransactionRefused | None:
        """Reserve the grants of one or several pods, all or none.

        A pod's earlier reservation is replaced, and restored if the transaction is refused. A
        pod that is bound or being bound, has ended, or is named twice is refused.
        """
        uids = [grant.uid for grant in grants]
        for grant in grants:
            closed = self._closed(grant, uids)
            if closed:
                return refusal(grant, closed)
        before = [self._entries[uid] for uid in uids if uid in self._entries]
        for entry in before:
            self._release(entry)
        taken: list[LedgerEntry] = []
        for grant in grants:
            made = new_entry(self.fleet, grant, AllocationPhase.RESERVED, now)
            problem = check_entry(self.fleet, made, self.allowance(grant.namespace))
            if problem is not None:
                for entry in reversed(taken):
                    self._release(entry)
                for entry in before:
                    self._hold(entry)
                return problem
            taken.append(self._hold(made))
        return None

    def binding_sent(self, uid: str) -> None:
        """The pod's Binding is under way."""
        self._advance(uid, Sent())

    def resolve_binding(self, uid: str, *, bound: bool | None) -> None:
        """What became of a Binding: True written, False definitely not, None not known.

        The watch may have shown the pod bound already; then the answer changes nothing.
        """
        event: Event = OutcomeUnknown() if bound is None else Bound() if bound else BindingRefused()
        self._advance(uid, event)

    def forget(self, uid: str) -> None:
        """Drop a reservation that was never sent."""
        self._advance(uid, Expired())

    def expire(self, older_than: float) -> list[Grant]:
        """Drop reservations made before `older_than` and never sent; the grants dropped."""
        old = [
            e.grant for e in self._entries.values()
            if e.phase is AllocationPhase.RESERVED and e.since < older_than
        ]  # fmt: skip
        for grant in old:
            self.forget(grant.uid)
        return old

    def resize(self, grant: Grant) -> TransactionRefused | None:
        """Reserve a bound pod's next grant next to the one that it has, until `resized` says which
        of the two it carries."""
        entry = self._entries.get(grant.uid)
        if (
            entry is None
            or entry.phase is not AllocationPhase.BOUND
            or not follows(grant, entry.grant)
        ):
            return refusal(grant, "the pod does not hold what would be changed")
        with withholding(self.fleet, self.withheld_from((grant.uid,), LEAST)):
            made = entry_covering_both(self.fleet, entry, grant, self.allowance(grant.namespace))
        if isinstance(made, TransactionRefused):
            return made
        self._release(entry)
        self._hold(made)
        return None

    def resized(self, uid: str, *, done: bool) -> None:
        """What became of a resize: True written, False definitely not."""
        entry = self._entries.get(uid)
        if entry is not None and entry.pending is not None:
            grant = entry.pending if done else entry.grant
            self._exchange(entry, grant, init_over=entry.init_over)

    # -- the API server's view

    def observe(self, seen: ObservedPod, now: float) -> bool:
        """Take over what the API server shows of a pod.

        Repeats change nothing, and a pod that has ended never comes back, whatever order events
        arrive in. Of two grants of a bound pod that differ in amounts alone the later one holds.
        False when it shows another than the ledger holds: the ledger keeps its own, the caller
        restores it and raises the alert.
        """
        if seen.uid in self._ends:
            return True
        if seen.ended:
            self._end(seen.uid)
            return True
        if seen.grant is None:
            return True
        self.generation += self._unreadable.discard(seen.uid)
        return self._adopt(seen, seen.grant, now)

    def relist(self, shown: Set[str], started: float, taking: Slices[None]) -> Slices[None]:
        """Replace the API server's view after a start or a gap: `taking` observes what a list
        shows.

        `shown` are the uids of every pod that exists, bound or not. A pod that is not among them,
        and that the ledger knew before the list `started`, is gone. Events from before the list
        must not be delivered before it is taken.

        What the list does not show ends last: between two slices each pod counts as it did or as
        it is listed, and no card is free that was not, and will not be.
        """
        for uid in self._quota.pending - shown:
            self.generation += self._quota.drop_pending(uid)
        yield from taking
        yield from for_each(list(self._entries), lambda uid: self._check(uid, shown, started))
        for uid in self._unreadable.before(started):
            if uid not in shown:
                self._end(uid)
        self._ends.keep(shown)

    def ended(self, uid: str) -> None:
        """The pod is gone from the API server, bound or not."""
        self._end(uid)

    def dropped(self, uid: str) -> None:
        """What was held under a uid that is no pod's is free. It may come again."""
        self._advance(uid, Ended())

    # -- keeping in step

    def _check(self, uid: str, shown: Set[str], started: float) -> None:
        entry = self._entries.get(uid)
        if uid not in shown and entry is not None and entry.since < started:
            self._end(uid)

    def _closed(self, grant: Grant, uids: Sequence[str]) -> str:
        """Why the pod takes no reservation, whatever is free; empty when it does."""
        if uids.count(grant.uid) > 1:
            return "the pod is named twice in one transaction"
        if grant.uid in self._ends:
            return "the pod has ended"
        entry = self._entries.get(grant.uid)
        if entry is None or entry.phase is AllocationPhase.RESERVED:
            return ""
        return f"the pod's allocation is {entry.phase}"

    def _adopt(self, seen: ObservedPod, grant: Grant, now: float) -> bool:
        entry = self._entries.get(seen.uid)
        if grant.uid != seen.uid:
            return False
        if entry is None:
            relink_renamed_cards(self.fleet, grant)
            self._hold(
                new_entry(self.fleet, grant, AllocationPhase.BOUND, now, init_over=seen.init_over)
            )
            return True
        known = entry.phase is AllocationPhase.BOUND
        entry.phase = advance(entry.phase, Bound())
        same = entry.grant == grant
        if known and not same:
            if not follows(grant, entry.grant):
                return False
            self._exchange(entry, grant, init_over=entry.init_over)
            return True
        init_over = seen.init_over or entry.init_over
        if entry.pending is not None:  # it counts once it is known what the pod carries
            entry.init_over = init_over
        elif not same or init_over != entry.init_over:
            self._exchange(entry, grant, init_over=init_over)
        return True

    def _exchange(self, entry: LedgerEntry, grant: Grant, *, init_over: bool) -> None:
        """A bound pod's grant for another one, or what it counts now."""
        self._release(entry)
        relink_renamed_cards(self.fleet, grant)
        self._hold(new_entry(self.fleet, grant, entry.phase, entry.since, init_over=init_over))

    def _advance(self, uid: str, event: Event) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.phase = advance(entry.phase, event)
        if entry.phase is AllocationPhase.RELEASED:
            self._release(entry)

    def _end(self, uid: str) -> None:
        self._ends.add(uid)
        self.generation += self._quota.drop_pending(uid)
        self.generation += self._unreadable.discard(uid)
        self._advance(uid, Ended())

    def _hold(self, entry: LedgerEntry) -> LedgerEntry:
        self.generation += 1
        return self._holdings.hold(entry)

    def _release(self, entry: LedgerEntry) -> None:
        self.generation += 1
        self._holdings.release(entry)
