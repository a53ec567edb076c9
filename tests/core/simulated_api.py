"""What is around the ledger for the state machine: an API server that forgets nothing, and an
event stream that repeats, loses and reorders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.fleet.charges import Charge, charges, init_is_over
from tessera_core.inventory.merge import cards_of
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import DialectRegistry
from tessera_core.slices import Slices, at_once, for_each
from tessera_schema.cards import Card
from tessera_schema.grants import Grant, decode_grant, encode_grant
from tessera_schema.kube import Node, Pod
from tessera_schema.requests import PodRequest

Place = tuple[str, str, int]
"""Node, vendor, index of a card."""


def relist(ledger: Ledger, view: Sequence[ObservedPod], started: float, now: float) -> Slices[None]:
    """The ledger takes a list of all pods."""
    taking = for_each(view, lambda seen: ledger.observe(seen, now))
    yield from ledger.relist({seen.uid for seen in view}, started, taking)


@dataclass
class Stored:
    """A pod in the API server."""

    pod: Pod
    request: PodRequest
    grant: str | None = None
    terminal: bool = False

    def observed(self) -> ObservedPod:
        return ObservedPod(
            uid=self.pod.metadata.uid,
            grant=decode_grant(self.grant) if self.grant else None,
            ended=self.terminal,
            init_over=init_is_over(self.pod),
        )


@dataclass
class SimulatedApi:
    """The API server's pods, the scheduler's ledger and what is under way between them."""

    registry: DialectRegistry
    nodes: list[Node]
    now: float = 0
    pods: dict[str, Stored] = field(default_factory=dict)
    events: list[ObservedPod] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    capacity: dict[Place, Card] = field(default_factory=dict)
    answers: dict[str, bool] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    unhealthy: set[Place] = field(default_factory=set)

    def start(self) -> None:
        """A new scheduler process: it knows nothing and lists everything."""
        self.ledger = Ledger()
        self.answers.clear()
        for node in self.nodes:
            self.publish(node)
        self.relist()

    def publish(self, node: Node) -> None:
        cards = cards_of(self.registry, node, {})[0]
        if node.name in self.renamed:
            cards = tuple(replace(c, id=f"{c.id}-by-another-name") for c in cards)
        for card in cards:
            self.capacity[node.name, card.vendor, card.index] = card
        if node.name in self.away:
            self.ledger.remove_node(node.name)
            return
        self.ledger.put_node(
            node.name,
            [
                replace(c, healthy=(node.name, c.vendor, c.index) not in self.unhealthy)
                for c in cards
            ],
        )

    def create(self, pod: Pod) -> str | None:
        admission = admit(self.registry, pod)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return None
        self.pods[pod.metadata.uid] = Stored(pod=pod, request=admission.request)
        return pod.metadata.uid

    def choose(self, uid: str) -> Grant | None:
        """Where the pod would go now."""
        request = self.pods[uid].request
        found = Placer(self.ledger.fleet).place(request, self.ledger.allowance(request.namespace))
        if not isinstance(found, Placement):
            return None
        return Grant(
            uid=uid, namespace=request.namespace, name=request.name, node=found.node,
            shares=found.shares,
        )  # fmt: skip

    def send(self, uid: str, *, written: bool) -> None:
        """Send the Binding; it may be written or not. Its answer is under way."""
        entry = self.ledger.entry(uid)
        if entry is None or entry.phase is not AllocationPhase.RESERVED:
            return
        self.ledger.binding_sent(uid)
        stored = self.pods.get(uid)
        accepted = written and stored is not None and stored.grant is None and not stored.terminal
        if accepted and stored is not None:
            stored.grant = encode_grant(entry.grant)
            self.events.append(stored.observed())
        self.answers[uid] = accepted

    def answer(self, uid: str, *, lost: bool) -> None:
        """The Binding is answered, or the answer is lost; the watch may have been faster."""
        if uid in self.answers:
            accepted = self.answers.pop(uid)
            self.ledger.resolve_binding(uid, bound=None if lost else accepted)

    def settle_by_reading(self) -> None:
        """A quorum read of every pod whose Binding's outcome is not known."""
        for entry in list(self.ledger.entries()):
            if entry.phase is AllocationPhase.UNSETTLED:
                stored = self.pods.get(entry.grant.uid)
                bound = stored is not None and stored.grant is not None
                self.ledger.resolve_binding(entry.grant.uid, bound=bound)

    def finish(self, uid: str) -> None:
        self.pods[uid].terminal = True
        self.events.append(self.pods[uid].observed())

    def delete(self, uid: str) -> None:
        stored = self.pods.pop(uid)
        stored.terminal = True
        self.events.append(stored.observed())

    def relist(self) -> None:
        """List and watch again: whatever was under way in the stream is part of the list."""
        self.now += 1
        self.events.clear()
        listed = [stored.observed() for stored in self.pods.values()]
        at_once(relist(self.ledger, listed, started=self.now, now=self.now))

    def truth(self) -> dict[Place, Charge]:
        """What live pods of the API server hold of each card, whatever it is called."""
        total: dict[Place, Charge] = {}
        for stored in self.pods.values():
            found = stored.observed()
            if found.grant is not None and not stored.terminal:
                shares = found.grant.shares
                places = {s.card: (found.grant.node, s.vendor, s.index) for s in shares}
                for card, charge in charges(shares, init_over=found.init_over).items():
                    key = places[card]
                    total[key] = total.get(key, Charge()).plus(charge)
        return total
