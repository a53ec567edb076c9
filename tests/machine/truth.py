"""What is true of a cluster, by its API server alone: followed change by change, without
anything that the test is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from tessera_core.fleet.charges import Charge, charges, init_is_over
from tessera_core.trust.grants import Verifier
from tessera_embedded.apiserver.store import Store
from tessera_runtime.kube import paths
from tessera_runtime.kube.lease_object import LeaseObject
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant, decode_grant
from tessera_schema.kube import Pod
from tests.scheduler.fake_cluster import HOME, LEASE

KEYS = f"/api/v1/namespaces/{HOME}/configmaps/{SIGNING_KEYS}"
CALL_S = 5.0
SLACK_S = 0.1
"""What a fake call takes beyond its deadline."""

COUNTED = ("nvidia.com/gpu", "volcano.sh/vgpu-number", "tencent.com/vcuda-core")
"""What the shapes of pods ask device plugins for."""

Place = tuple[str, str]
"""Node and card."""


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Sent(Struct, frozen=True):
    text: str
    at: float
    reign: int


class Bound(Struct, frozen=True, kw_only=True):
    """A pod that was bound with a valid grant."""

    grant: Grant
    at: float
    overtaken: bool
    """By a writer that had stopped and came back: another one had the Lease meanwhile. This is the
    one way to a card that is granted twice, where the API server does not compare terms."""


_event = msgspec.json.Decoder(_Event).decode
_pod = msgspec.json.Decoder(Pod).decode
_lease = msgspec.json.Decoder(LeaseObject).decode


class Truth:
    """Pods, and who bound them."""

    def __init__(
        self, store: Store, now: Callable[[], float], cards: Mapping[str, Mapping[str, Card]],
        allocating: str = "", *, fenced: bool = True,
    ) -> None:  # fmt: skip
        """On the node `allocating` kubelet does not say for which container it asks. `fenced`: the
        API server refuses grants of a term that is over."""
        self.pods: dict[str, Pod] = {}
        self.bound: dict[str, Bound] = {}
        """By uid, those that are gone among them."""
        self.wrong: list[str] = []
        """What should never have been written."""
        self.resized = 0
        """Live resizes so far."""
        self.holder = ""
        self.reign = 0
        """Counts the holders of the Lease."""
        self.out_of_term = 0
        """Writes of a former leader that were refused."""
        self.kept_apart = 0
        """Pods that were bound to that node while others were on their way to it."""
        self._allocating = allocating
        self._fenced = fenced
        self._store = store
        self._now = now
        self._cards = cards
        self._sent: dict[str, list[_Sent]] = {}
        self._verifier = Verifier({})
        self._on_pods = store.watch(paths.PODS)
        self._on_pods.on_change = self._read_pods
        self._on_leases = store.watch(LEASE)
        self._on_leases.on_change = self._read_leases
        self.on_bound: Callable[[Bound], None] = lambda _bound: None

    # -- what happens

    def sending(self, body: bytes) -> None:
        """A scheduler has decided to send this Binding, or to restore this grant, now."""
        meta = msgspec.json.decode(body)["metadata"]
        text = meta.get("annotations", {}).get(GRANT_KEY)
        if text:
            self._sent.setdefault(meta["uid"], []).append(_Sent(text, self._now(), self.reign))

    def _read_pods(self) -> None:
        for frame in self._on_pods.pull():
            event = _event(frame)
            pod = _pod(event.object)
            uid = pod.metadata.uid
            if event.type == "DELETED":
                self.pods.pop(uid, None)
                continue
            self.pods[uid] = pod
            if pod.spec.node_name and uid not in self.bound:
                self._arrived(uid, pod)
            elif uid in self.bound:
                self._resized(uid, pod)

    def _read_leases(self) -> None:
        for frame in self._on_leases.pull():
            event = _event(frame)
            holder = _lease(event.object).spec.holder_identity or ""
            if event.type != "DELETED" and holder and holder != self.holder:
                self.holder = holder
                self.reign += 1

    def _arrived(self, uid: str, pod: Pod) -> None:
        text = pod.metadata.annotations.get(GRANT_KEY, "")
        if not text or self.problem(text):
            return
        grant = decode_grant(text)
        if (grant.uid, grant.node) != (uid, pod.spec.node_name):
            return
        sent = [s for s in self._sent.get(uid, ()) if s.text == text]
        if not sent:
            self.wrong.append(f"{pod.name} carries a valid grant that no scheduler sent")
            return
        overtaken = all(s.reign != self.reign for s in sent)
        if overtaken and self._fenced:
            self.wrong.append(f"{pod.name} was bound by a leader whose term was over")
        took_s = self._now() - sent[-1].at
        if overtaken and took_s <= CALL_S + SLACK_S:
            self.wrong.append(
                f"{pod.name} was bound {took_s:g} s after it was sent, and others lead already"
            )
        self.bound[uid] = Bound(grant=grant, at=self._now(), overtaken=overtaken)
        self._alone(pod, self.bound[uid])
        self.on_bound(self.bound[uid])

    def _alone(self, pod: Pod, bound: Bound) -> None:
        """Of the pods that kubelet has still to admit on that node, no two ask for as much. Who was
        bound by somebody else, or by a writer that came back, nobody could know of."""
        node = pod.spec.node_name
        if node != self._allocating or bound.overtaken:
            return
        for other, known in self.living():
            on_its_way = other.spec.node_name == node and not other.status.start_time
            if other is pod or known.overtaken or not on_its_way:
                continue
            if _plugin_requests(other).isdisjoint(_plugin_requests(pod)):
                self.kept_apart += 1
            else:
                self.wrong.append(
                    f"{pod.name} was bound while {other.name} is on its way to {node}, and asks "
                    "for as much"
                )

    def _resized(self, uid: str, pod: Pod) -> None:
        """Its grant may be a later one; what else is written there is nobody's word."""
        text, bound = pod.metadata.annotations.get(GRANT_KEY, ""), self.bound[uid]
        if not text or self.problem(text):
            return
        grant = decode_grant(text)
        if grant.revision <= bound.grant.revision:
            return
        if not any(sent.text == text for sent in self._sent.get(uid, ())):
            self.wrong.append(f"{pod.name} carries a later grant that no scheduler sent")
        self.bound[uid] = msgspec.structs.replace(bound, grant=grant)
        self.resized += 1

    # -- what is so

    def problem(self, text: str) -> str:
        """Why a grant is not signed by the scheduler."""
        if self._verifier.problem(text):
            answer = self._store.handle("GET", KEYS)
            if answer.code == 200:
                self._verifier = Verifier(msgspec.json.decode(answer.body).get("data", {}))
        return self._verifier.problem(text)

    @property
    def verifier(self) -> Verifier:
        """With the keys of the grants that were seen."""
        return self._verifier

    def living(self) -> Iterator[tuple[Pod, Bound]]:
        """Pods that hold cards."""
        for uid, pod in self.pods.items():
            if uid in self.bound and not pod.terminal:
                yield pod, self.bound[uid]

    def granted(self, *, overtaken: bool = True) -> dict[Place, Charge]:
        """What is granted on each card."""
        total: dict[Place, Charge] = {}
        for pod, bound in self.living():
            if overtaken or not bound.overtaken:
                shares = bound.grant.shares
                for card, charge in charges(shares, init_over=init_is_over(pod)).items():
                    key = bound.grant.node, card
                    total[key] = total.get(key, Charge()).plus(charge)
        return total

    def overfull(self, *, overtaken: bool = True) -> set[Place]:
        """Cards that are granted beyond their memory, cores or slots, or to others next to one that
        has a card to itself."""
        held = self.granted(overtaken=overtaken)
        sharers: Counter[Place] = Counter()
        for _, bound in self.living():
            if overtaken or not bound.overtaken:
                sharers.update({(bound.grant.node, s.card) for s in bound.grant.shares})
        return {
            place for place, charge in held.items()
            if not fits(charge, self._cards[place[0]][place[1]])
            or (charge.exclusive and sharers[place] > 1)
        }  # fmt: skip

    def memory_of(self, namespace: str) -> int:
        """Bytes that a namespace holds."""
        return sum(
            charge.memory_bytes
            for pod, bound in self.living()
            if pod.metadata.namespace == namespace and not bound.overtaken
            for charge in charges(bound.grant.shares, init_over=init_is_over(pod)).values()
        )


def _plugin_requests(pod: Pod) -> set[tuple[str, str]]:
    """What kubelet asks a device plugin for, container by container."""
    return {
        (name, str(amount))
        for container in pod.all_containers
        for name, amount in container.resources.limits.items()
        if name in COUNTED
    }


def fits(charge: Charge, card: Card) -> bool:
    """Whether a card has that much."""
    return (
        charge.memory_bytes <= card.memory_bytes
        and charge.cores_percent <= card.cores_percent
        and charge.slots <= card.slots
    )
