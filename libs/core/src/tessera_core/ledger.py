"""Who holds what: the books, rebuilt from the pods of the API server, plus what is assumed.

Every change of what is held goes through `_hold` and `_release`, which keep four things in step:
the entry, the charges on its node's cards, the fleet's columns and the namespace's quota.
The ledger promises that `assume` never takes a card beyond its memory, cores or slots, and that
a grant is released only when its pod is gone or terminal, or was definitely never bound.
It does not look at clocks or the network: callers tell what happened and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tessera_core.capacity import misfit
from tessera_core.charges import Charge, charges
from tessera_core.endings import Ends, Unreadable
from tessera_core.fleet import Fleet
from tessera_core.machines.allocation import (
    Bound,
    Ended,
    Event,
    Expired,
    OutcomeUnknown,
    Phase,
    Refused,
    Sent,
    advance,
)
from tessera_core.pages import Entry, Refusal, Seen
from tessera_core.quota import Allowance, Uses, use_of
from tessera_core.quota_book import QuotaBook
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason


class Ledger:
    """The books of a cluster."""

    def __init__(self) -> None:
        """Empty: tell it the nodes, then the pods, before anything is assumed."""
        self.fleet = Fleet()
        """For reading; only the ledger writes to it."""
        self.generation = 0
        """Changes whenever an answer about room may change."""
        self._quota = QuotaBook()
        self._entries: dict[str, Entry] = {}
        self._held: dict[str, dict[str, Charge]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._ends = Ends()
        self._unreadable = Unreadable()

    # -- reading

    def entry(self, uid: str) -> Entry | None:
        """The books' page of a pod."""
        return self._entries.get(uid)

    def entries(self) -> Iterator[Entry]:
        """All pages."""
        yield from self._entries.values()

    def has_ended(self, uid: str) -> bool:
        """True for a pod that is known to be gone or terminal."""
        return uid in self._ends

    def held(self, node: str) -> Mapping[str, Charge]:
        """Card id -> sum of charges on a node, whether the cards are there or not."""
        return self._held.get(node, {})

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's quota leaves its next pod."""
        return self._quota.allowance(namespace)

    # -- nodes and limits

    def put_node(self, node: str, cards: Sequence[Card]) -> None:
        """Add a node or replace its cards. What is held on it stays held: by the card's id, or,
        when the card got another id, by its vendor and index."""
        self.fleet.put(node, cards)
        self.fleet.blocked[self.fleet.rows[node]] = self._unreadable.closes(node)
        for uid in self._on_node.get(node, ()):
            self._find_cards(self._entries[uid].grant)
        for card, charge in self.held(node).items():
            self.fleet.charge(node, card, charge)
        for uid in self._on_node.get(node, ()):
            self._recount(self._entries[uid])
        self.generation += 1

    def remove_node(self, node: str) -> None:
        """A node left. Its grants stay until their pods are gone."""
        self.fleet.remove(node)
        self.generation += 1

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Replace all limits of all namespaces."""
        self._quota.set_limits(limits)
        self.generation += 1

    def ask(self, uid: str, namespace: str, uses: Uses) -> None:
        """A waiting pod asks for this much: what its groups have lent of it is asked back."""
        if uid not in self._ends and uid not in self._entries:
            self.generation += self._quota.ask(uid, namespace, uses)

    def block(self, node: str, uid: str, now: float) -> None:
        """What a pod holds cannot be read: until it ends or can be read, nothing may be placed
        beside it."""
        if uid not in self._ends:
            self._unreadable.add(uid, node, now)
            self._set_blocked(node)

    # -- our own decisions

    def assume(self, grants: Sequence[Grant], now: float) -> Refusal | None:
        """Reserve the grants of one or several pods, all or none.

        A pod's earlier reservation is replaced, and restored if the transaction is refused. A
        pod that is bound or being bound, has ended, or is named twice is refused.
        """
        uids = [grant.uid for grant in grants]
        for grant in grants:
            closed = self._closed(grant, uids)
            if closed:
                return _refusal(grant, closed)
        before = [self._entries[uid] for uid in uids if uid in self._entries]
        for entry in before:
            self._release(entry)
        taken: list[Entry] = []
        for grant in grants:
            refusal = self._misfit(grant)
            if refusal is not None:
                for entry in reversed(taken):
                    self._release(entry)
                for entry in before:
                    self._hold(entry)
                return refusal
            taken.append(self._hold(self._page(grant, Phase.RESERVED, now)))
        return None

    def sent(self, uid: str) -> None:
        """The pod's Binding is under way."""
        self._advance(uid, Sent())

    def settle(self, uid: str, *, bound: bool | None) -> None:
        """What became of a Binding: True written, False definitely not, None not known.

        The watch may have shown the pod bound already; then the answer changes nothing.
        """
        event: Event = OutcomeUnknown() if bound is None else Bound() if bound else Refused()
        self._advance(uid, event)

    def forget(self, uid: str) -> None:
        """Drop a reservation that was never sent."""
        self._advance(uid, Expired())

    def expire(self, older_than: float) -> list[Grant]:
        """Drop reservations made before `older_than` and never sent; the grants dropped."""
        old = [
            e.grant for e in self._entries.values()
            if e.phase is Phase.RESERVED and e.since < older_than
        ]  # fmt: skip
        for grant in old:
            self.forget(grant.uid)
        return old

    # -- the API server's view

    def observe(self, seen: Seen, now: float) -> bool:
        """Take over what the API server shows of a pod.

        Repeats change nothing, and a pod that has ended never comes back, whatever order events
        arrive in. False when a bound pod shows another grant than the books hold: the books keep
        theirs, the caller restores it and raises the alarm.
        """
        if seen.uid in self._ends:
            return True
        if seen.ended:
            self._end(seen.uid)
            return True
        if seen.grant is None:
            return True
        node = self._unreadable.discard(seen.uid)
        if node is not None:
            self._set_blocked(node)
        return self._adopt(seen, seen.grant, now)

    def relist(self, view: Iterable[Seen], started: float, now: float) -> None:
        """Replace the API server's view after a start or a gap.

        `view` shows every pod that exists, bound or not. A pod that it does not show, and that
        the ledger knew before the list `started`, is gone. Events from before the list must not
        be delivered after it.
        """
        shown = set()
        for seen in view:
            shown.add(seen.uid)
            self.observe(seen, now)
        old = [uid for uid, entry in self._entries.items() if entry.since < started]
        for uid in (*old, *self._unreadable.before(started)):
            if uid not in shown:
                self._end(uid)
        for uid in self._quota.asking - shown:
            self.generation += self._quota.ask_no_more(uid)
        self._ends.keep(shown)

    def ended(self, uid: str) -> None:
        """The pod is gone from the API server, bound or not."""
        self._end(uid)

    # -- keeping in step

    def _page(self, grant: Grant, phase: Phase, now: float, *, init_over: bool = False) -> Entry:
        cost = charges(grant.shares, init_over=init_over)
        return Entry(
            grant=grant, phase=phase, charges=cost, uses=self._uses(grant, cost), since=now,
            init_over=init_over,
        )  # fmt: skip

    def _uses(self, grant: Grant, cost: Mapping[str, Charge]) -> Uses:
        vendors = {share.card: share.vendor for share in grant.shares}
        return use_of(
            (self.fleet.card(grant.node, card) or _unknown_card(card, vendors[card]), charge)
            for card, charge in cost.items()
        )

    def _recount(self, entry: Entry) -> None:
        """The facts of its cards may have changed, and with them what quota counts."""
        self._quota.count(entry.grant.namespace, entry.uses, -1)
        entry.uses = self._uses(entry.grant, entry.charges)
        self._quota.count(entry.grant.namespace, entry.uses)

    def _find_cards(self, grant: Grant) -> None:
        for share in grant.shares:
            if self.fleet.place(grant.node, share.card) is None:
                self.fleet.rename(grant.node, share.card, share.vendor, share.index)

    def _closed(self, grant: Grant, uids: Sequence[str]) -> str:
        """Why the pod takes no reservation, whatever is free; empty when it does."""
        if uids.count(grant.uid) > 1:
            return "the pod is named twice in one transaction"
        if grant.uid in self._ends:
            return "the pod has ended"
        entry = self._entries.get(grant.uid)
        if entry is None or entry.phase is Phase.RESERVED:
            return ""
        return f"the pod's allocation is {entry.phase}"

    def _misfit(self, grant: Grant) -> Refusal | None:
        problem = misfit(self.fleet, grant)
        if problem is not None:
            return _refusal(grant, problem[1], problem[0])
        uses = self._uses(grant, charges(grant.shares))
        over = self.allowance(grant.namespace).exceeded(uses)
        return _refusal(grant, over, Reason.RESOURCE_QUOTA_NOT_FIT) if over else None

    def _adopt(self, seen: Seen, grant: Grant, now: float) -> bool:
        entry = self._entries.get(seen.uid)
        if grant.uid != seen.uid:
            return False
        if entry is None:
            self._find_cards(grant)
            self._hold(self._page(grant, Phase.BOUND, now, init_over=seen.init_over))
            return True
        known = entry.phase is Phase.BOUND
        entry.phase = advance(entry.phase, Bound())
        same = entry.grant == grant
        if known and not same:
            return False
        init_over = seen.init_over or entry.init_over
        if not same or init_over != entry.init_over:
            self._release(entry)
            self._find_cards(grant)
            self._hold(self._page(grant, Phase.BOUND, entry.since, init_over=init_over))
        return True

    def _advance(self, uid: str, event: Event) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.phase = advance(entry.phase, event)
        if entry.phase is Phase.RELEASED:
            self._release(entry)

    def _end(self, uid: str) -> None:
        self._ends.add(uid)
        self.generation += self._quota.ask_no_more(uid)
        node = self._unreadable.discard(uid)
        if node is not None:
            self._set_blocked(node)
        self._advance(uid, Ended())

    def _set_blocked(self, node: str) -> None:
        if node in self.fleet.rows:
            self.fleet.blocked[self.fleet.rows[node]] = self._unreadable.closes(node)
        self.generation += 1

    def _hold(self, entry: Entry) -> Entry:
        self._count(entry, 1)
        self._quota.ask_no_more(entry.grant.uid)
        self._entries[entry.grant.uid] = entry
        self._on_node.setdefault(entry.grant.node, {})[entry.grant.uid] = None
        return entry

    def _release(self, entry: Entry) -> None:
        self._count(entry, -1)
        node, uid = entry.grant.node, entry.grant.uid
        del self._entries[uid], self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]

    def _count(self, entry: Entry, sign: int) -> None:
        node = entry.grant.node
        held = self._held.setdefault(node, {})
        for card, charge in entry.charges.items():
            held[card] = held.get(card, Charge()).plus(charge if sign > 0 else charge.negative())
            if not held[card].slots:
                del held[card]
            self.fleet.charge(node, card, charge, sign)
        if not held:
            del self._held[node]
        self._quota.count(entry.grant.namespace, entry.uses, sign)
        self.generation += 1


def _unknown_card(card: str, vendor: str) -> Card:
    """Stands in for a card that its node does not publish (any more)."""
    return Card(id=card, index=0, vendor=vendor, memory_bytes=0, cores_percent=0)


def _refusal(grant: Grant, message: str, reason: Reason = Reason.INVALID_REQUEST) -> Refusal:
    return Refusal(uid=grant.uid, reason=reason, message=message)
