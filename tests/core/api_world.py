"""A world around the ledger for the state machine: an API server that forgets nothing, and an
event stream that repeats, loses and reorders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tessera_core.admission import Admission, admit
from tessera_core.charges import Charge, charges, init_is_over
from tessera_core.inventory import cards_of
from tessera_core.ledger import Ledger, Seen
from tessera_core.machines.allocation import Phase
from tessera_core.placement import Found, place
from tessera_core.registry import Registry
from tessera_schema.grants import Grant, decode_grant, encode_grant
from tessera_schema.kube import Node, Pod
from tessera_schema.requests import PodRequest


@dataclass
class Stored:
    """A pod in the API server."""

    pod: Pod
    request: PodRequest
    grant: str | None = None
    terminal: bool = False

    def seen(self) -> Seen:
        return Seen(
            uid=self.pod.metadata.uid,
            grant=decode_grant(self.grant) if self.grant else None,
            ended=self.terminal,
            init_over=init_is_over(self.pod),
        )


@dataclass
class World:
    """The API server's pods, the scheduler's ledger and what is under way between them."""

    registry: Registry
    nodes: list[Node]
    now: float = 0
    pods: dict[str, Stored] = field(default_factory=dict)
    events: list[Seen] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    capacity: dict[tuple[str, str], Any] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    sick: set[tuple[str, str]] = field(default_factory=set)

    def start(self) -> None:
        """A new scheduler process: it knows nothing and lists everything."""
        self.ledger = Ledger()
        for node in self.nodes:
            self.publish(node)
        self.relist()

    def publish(self, node: Node) -> None:
        cards = cards_of(self.registry, node, {})[0]
        for card in cards:
            self.capacity[node.name, card.id] = card
        if node.name in self.away:
            self.ledger.remove_node(node.name)
            return
        healthy = [c if (node.name, c.id) not in self.sick else _sick(c) for c in cards]
        self.ledger.put_node(node.name, healthy)

    def create(self, pod: Pod) -> str | None:
        admission = admit(self.registry, pod)
        if not isinstance(admission, Admission) or not admission.request.containers:
            return None
        self.pods[pod.metadata.uid] = Stored(pod=pod, request=admission.request)
        return pod.metadata.uid

    def choose(self, uid: str) -> Grant | None:
        """Where the pod would go now."""
        request = self.pods[uid].request
        found = place(self.ledger.fleet, request, self.ledger.quota.allowance(request.namespace))
        if not isinstance(found, Found):
            return None
        return Grant(
            uid=uid, namespace=request.namespace, name=request.name, node=found.node,
            shares=found.shares,
        )  # fmt: skip

    def bind(self, uid: str, *, written: bool, answered: bool) -> None:
        """Send the Binding; it may be written or not, and the answer may be lost."""
        entry = self.ledger.entry(uid)
        if entry is None or entry.phase is not Phase.RESERVED:
            return
        self.ledger.sent(uid)
        stored = self.pods.get(uid)
        accepted = written and stored is not None and stored.grant is None and not stored.terminal
        if accepted and stored is not None:
            stored.grant = encode_grant(entry.grant)
            self.events.append(stored.seen())
        self.ledger.settle(uid, bound=accepted if answered else None)

    def settle_by_reading(self) -> None:
        """A quorum read of every pod whose Binding's outcome is not known."""
        for entry in list(self.ledger.entries()):
            if entry.phase is Phase.UNSETTLED:
                stored = self.pods.get(entry.grant.uid)
                bound = stored is not None and stored.grant is not None
                self.ledger.settle(entry.grant.uid, bound=bound)

    def finish(self, uid: str) -> None:
        self.pods[uid].terminal = True
        self.events.append(self.pods[uid].seen())

    def delete(self, uid: str) -> None:
        stored = self.pods.pop(uid)
        stored.terminal = True
        self.events.append(stored.seen())

    def relist(self) -> None:
        """List and watch anew: whatever was under way in the stream is part of the list."""
        self.now += 1
        self.events.clear()
        self.ledger.relist([s.seen() for s in self.pods.values()], started=self.now, now=self.now)

    def truth(self) -> dict[tuple[str, str], Charge]:
        """(node, card) -> what live pods of the API server hold there."""
        total: dict[tuple[str, str], Charge] = {}
        for stored in self.pods.values():
            seen = stored.seen()
            if seen.grant is not None and not stored.terminal:
                for card, charge in charges(seen.grant.shares, init_over=seen.init_over).items():
                    key = (seen.grant.node, card)
                    total[key] = total.get(key, Charge()).plus(charge)
        return total


def _sick(card: Any) -> Any:
    from msgspec.structs import replace

    return replace(card, healthy=False)
