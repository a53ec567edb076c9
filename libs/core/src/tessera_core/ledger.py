"""Who holds what: the books, rebuilt from the pods of the API server, plus what is assumed.

Every change of what is held goes through `_hold` and `_release`, which keep four things in step:
the entry, the charges on its node's cards, the fleet's columns and the namespace's quota.
The ledger promises that `assume` never takes a card beyond its memory, cores or slots, and that
a grant is released only when its pod is gone or terminal, or was definitely never bound.
It does not look at clocks or the network: callers tell what happened and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.charges import Charge, charges
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
from tessera_core.quota import QuotaBook, Uses, use_of
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


class Entry(Struct, kw_only=True):
    """One pod in the books."""

    grant: Grant
    phase: Phase
    charges: Mapping[str, Charge]
    """Card id -> charge."""
    uses: Uses
    """What it counts in its namespace's quota."""
    since: float
    """When it was assumed or first seen, in seconds of the caller's clock."""
    init_over: bool = False


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a transaction was not taken. Nothing of it was."""

    uid: str
    reason: Reason
    message: str


class Seen(Struct, frozen=True, kw_only=True):
    """A pod as the API server shows it. Without a grant it holds nothing of ours (yet)."""

    uid: str
    grant: Grant | None
    ended: bool = False
    """Gone or terminal."""
    init_over: bool = False


class Ledger:
    """The books of a cluster."""

    def __init__(self) -> None:
        """Empty: tell it the nodes, then the pods, before anything is assumed."""
        self.fleet = Fleet()
        self.quota = QuotaBook()
        self.generation = 0
        """Changes whenever an answer about room may change."""
        self._entries: dict[str, Entry] = {}
        self._held: dict[str, dict[str, Charge]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._ended: dict[str, None] = {}
        self._unreadable: dict[str, str] = {}

    # -- reading

    def entry(self, uid: str) -> Entry | None:
        """The books' page of a pod."""
        return self._entries.get(uid)

    def entries(self) -> Iterator[Entry]:
        """All pages, oldest first."""
        yield from self._entries.values()

    def held(self, node: str) -> Mapping[str, Charge]:
        """Card id -> sum of charges on a node, whether the cards are there or not."""
        return self._held.get(node, {})

    # -- nodes

    def put_node(self, node: str, cards: Sequence[Card]) -> None:
        """Add a node or replace its cards. What is held on it stays held."""
        self.fleet.put(node, cards, self._held.get(node, {}))
        self.fleet.blocked[self.fleet.rows[node]] = node in self._unreadable.values()
        for uid in self._on_node.get(node, ()):
            self._recount(self._entries[uid])
        self.generation += 1

    def remove_node(self, node: str) -> None:
        """A node left. Its grants stay until their pods are gone."""
        self.fleet.remove(node)
        self.generation += 1

    def block(self, node: str, uid: str) -> None:
        """A pod's grant cannot be read by this release: until the pod ends, nothing may be placed
        beside it."""
        self._unreadable[uid] = node
        self._set_blocked(node)

    # -- our own decisions

    def assume(self, grants: Sequence[Grant], now: float) -> Refusal | None:
        """Reserve the grants of one or several pods, all or none.

        A pod's earlier reservation is replaced, and restored if the transaction is refused. A
        pod that is bound or being bound is refused: its cards are settled first.
        """
        before = [self._entries[g.uid] for g in grants if g.uid in self._entries]
        for entry in before:
            if entry.phase is not Phase.RESERVED:
                return _refusal(entry.grant, f"the pod's allocation is {entry.phase}")
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
        """What became of a Binding: True written, False definitely not, None not known."""
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

    def observe(self, seen: Seen, now: float) -> None:
        """Take over what the API server shows of a bound pod. Repeats change nothing; a pod
        that has ended never comes back, whatever order events arrive in."""
        if seen.uid in self._ended:
            return
        if seen.ended:
            self._end(seen.uid)
        elif seen.grant is not None:
            self._adopt(seen.grant, now, init_over=seen.init_over)

    def relist(self, view: Iterable[Seen], started: float, now: float) -> None:
        """Replace the API server's view after a start or a gap.

        `view` shows every pod that exists, bound or not. A pod that it does not show, and that
        the ledger knew before the list `started`, is gone.
        """
        shown = set()
        for seen in view:
            shown.add(seen.uid)
            self.observe(seen, now)
        for uid, entry in list(self._entries.items()):
            if uid not in shown and entry.since < started:
                self._end(uid)
        for uid in [u for u in self._unreadable if u not in shown]:
            self._end(uid)
        self._ended = {uid: None for uid in self._ended if uid in shown}

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
        self.quota.count(entry.grant.namespace, entry.uses, -1)
        entry.uses = self._uses(entry.grant, entry.charges)
        self.quota.count(entry.grant.namespace, entry.uses)

    def _misfit(self, grant: Grant) -> Refusal | None:
        fleet = self.fleet
        row = fleet.rows.get(grant.node)
        if row is None or fleet.blocked[row]:
            return _refusal(grant, f"node {grant.node} takes no pods", Reason.NODE_BLOCKED)
        for card_id, charge in charges(grant.shares).items():
            place = fleet.place(grant.node, card_id)
            if place is None:
                return _refusal(grant, f"no card {card_id} on {grant.node}", Reason.UNKNOWN_CARD)
            c = fleet.cards
            problem = (
                Reason(int(c.blocked[place])) if c.blocked[place]
                else Reason.CARD_TIME_SLICING_EXHAUSTED
                if c.sharers[place] + charge.slots > c.slots[place]
                else Reason.CARD_INSUFFICIENT_MEMORY
                if c.memory_used[place] + charge.memory_bytes > c.memory_total[place]
                else Reason.CARD_INSUFFICIENT_CORE
                if c.cores_used[place] + charge.cores_percent > c.cores_total[place]
                else Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
                if c.exclusive[place] or (charge.exclusive and c.sharers[place])
                else None
            )  # fmt: skip
            if problem is not None:
                return _refusal(grant, f"card {card_id} on {grant.node}: {problem.wire}", problem)
        over = self.quota.allowance(grant.namespace).exceeded(
            self._page(grant, Phase.RESERVED, 0).uses
        )
        return _refusal(grant, over, Reason.RESOURCE_QUOTA_NOT_FIT) if over else None

    def _adopt(self, grant: Grant, now: float, *, init_over: bool) -> None:
        entry = self._entries.get(grant.uid)
        if entry is None:
            self._hold(self._page(grant, Phase.BOUND, now, init_over=init_over))
            return
        phase = advance(entry.phase, Bound())
        if entry.grant == grant and entry.init_over == init_over:
            entry.phase = phase
            return
        self._release(entry)
        self._hold(self._page(grant, phase, entry.since, init_over=init_over))

    def _advance(self, uid: str, event: Event) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.phase = advance(entry.phase, event)
        if entry.phase is Phase.RELEASED:
            self._release(entry)

    def _end(self, uid: str) -> None:
        self._ended[uid] = None
        while len(self._ended) > _REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]
        node = self._unreadable.pop(uid, None)
        if node is not None:
            self._set_blocked(node)
        self._advance(uid, Ended())

    def _set_blocked(self, node: str) -> None:
        if node in self.fleet.rows:
            self.fleet.blocked[self.fleet.rows[node]] = node in self._unreadable.values()
        self.generation += 1

    def _hold(self, entry: Entry) -> Entry:
        self._count(entry, 1)
        self._entries[entry.grant.uid] = entry
        self._on_node.setdefault(entry.grant.node, {})[entry.grant.uid] = None
        return entry

    def _release(self, entry: Entry) -> None:
        self._count(entry, -1)
        del self._entries[entry.grant.uid]
        del self._on_node[entry.grant.node][entry.grant.uid]

    def _count(self, entry: Entry, sign: int) -> None:
        node = entry.grant.node
        held = self._held.setdefault(node, {})
        for card, charge in entry.charges.items():
            total = held.get(card, Charge()).plus(charge if sign > 0 else charge.negative())
            held[card] = total
            if not total.slots:
                del held[card]
            self.fleet.charge(node, card, charge, sign)
        if not held:
            del self._held[node]
        self.quota.count(entry.grant.namespace, entry.uses, sign)
        self.generation += 1


_REMEMBERED_ENDS: Final = 100_000
"""Ends of pods remembered against late events; a relist forgets them all."""


def _unknown_card(card: str, vendor: str) -> Card:
    """Stands in for a card that its node does not publish (any more)."""
    return Card(id=card, index=0, vendor=vendor, memory_bytes=0, cores_percent=0)


def _refusal(grant: Grant, message: str, reason: Reason = Reason.INVALID_REQUEST) -> Refusal:
    return Refusal(uid=grant.uid, reason=reason, message=message)
