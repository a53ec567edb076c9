"""Pods as several services follow them: decoded once, cut down to the fields that one service
needs.

    def summary(pod: DecodedPod) -> QuotaPodSummary:
        return QuotaPodSummary(uid=pod.uid, grant=pod.grant, started=pod.started)

    reader = PodSummaryReader(registry, ledger.fleet, keys, summary, migration=False)
    Reflector(kube, reader.list_watch(), QuotaPods(ledger), settings=settings.kube)

What a summary does not take is dropped with the object's text, and is not read at all: a service
holds 100,000 of them. A pod that cannot be read keeps the summary that it had before.

The scheduler has a reader of its own (`tessera_scheduler.cache.pod_reader`): it verifies a
signature once per text, and closes the nodes of pods that it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from sys import intern
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.fleet import charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.recovery.adopt import adopt
from tessera_core.registry.registry import DialectRegistry
from tessera_core.shared_values import one_number
from tessera_core.slices import Slices, for_each
from tessera_core.trust.grants import Verifier
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.kube import paths, timestamps
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.grants import Grant
from tessera_schema.injections import Injection
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest

T = TypeVar("T")

BOUND: Final = f"{paths.LIVING},spec.nodeName!="
"""Field selector of those that have a node."""
_decode: Final = decoder(Pod)
_NOTHING_GIVEN: Final[Mapping[str, Injection]] = {}
"""One for all grants, and not changed."""


class DecodedPod:
    """One pod; each property is worked out when a summary asks for it."""

    __slots__ = ("_reader", "pod", "raw")

    def __init__(self, reader: PodSummaryReader[Any], raw: bytes) -> None:
        """Raises msgspec.DecodeError."""
        self.pod = _decode(raw)
        self.raw = raw
        """For fields that no other service reads."""
        self._reader = reader

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def node(self) -> str:
        """Empty while the pod has none."""
        return self.pod.spec.node_name

    @property
    def grant(self) -> Grant | None:
        """What a bound pod was granted; None where it has no grant that counts."""
        return self._reader.grant(self.pod)

    @property
    def request(self) -> PodRequest | None:
        """What it requests; None where it requests no cards, or may not have them."""
        admission = admit(self._reader.registry, self.pod, runs=bool(self.node), allowed=EVERYTHING)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return None
        return admission.request

    @property
    def init_over(self) -> bool:
        """Whether its init containers have ended."""
        return charges.init_is_over(self.pod)

    @property
    def started(self) -> float:
        """Unix time at which its node took it; 0 = not yet."""
        return timestamps.parse_time(self.pod.status.start_time) or 0

    @property
    def created(self) -> float:
        """Unix time of its creation; 0 = not said."""
        return timestamps.parse_time(self.pod.metadata.creation_timestamp) or 0


class PodSummaryReader(Generic[T]):
    """Makes summaries of pods, by the keys and cards that are known at the moment."""

    def __init__(
        self,
        registry: DialectRegistry,
        fleet: Fleet,
        keys: GrantKeys,
        summary: Callable[[DecodedPod], T],
        *,
        migration: bool,
    ) -> None:
        """With `migration` what other systems wrote on pods counts too, for the fleet's cards."""
        self.registry = registry
        self._fleet = fleet
        self._keys = keys
        self._summary = summary
        self._migration = migration

    def list_watch(self, selector: str = paths.LIVING) -> ListWatch[T]:
        """Where the pods of a field selector are."""
        return ListWatch(paths.PODS, self.read, {"fieldSelector": selector})

    def read(self, raw: bytes) -> T:
        """The summary. Raises msgspec.DecodeError."""
        return self._summary(DecodedPod(self, raw))

    def grant(self, pod: Pod) -> Grant | None:
        """A bound pod's grant; None where it has none that counts."""
        row = self._fleet.rows.get(pod.spec.node_name)
        cards = () if row is None else self._fleet.facts[row]
        verifier: Verifier = self._keys.verifier
        return adopt(self.registry, pod, cards, verifier=verifier, others=self._migration).grant


def without_injections(grant: Grant | None) -> Grant | None:
    """A grant as services keep it: without what was injected, which is the larger part of it, and
    with each text once that other objects have too, and numbers that are equal."""
    if grant is None:
        return None
    shares = tuple(
        replace(
            share, container=intern(share.container), vendor=intern(share.vendor),
            dialect=intern(share.dialect), card=intern(share.card),
            memory_bytes=one_number(share.memory_bytes),
            cores_percent=one_number(share.cores_percent),
        )
        for share in grant.shares
    )  # fmt: skip
    return replace(
        grant, given=_NOTHING_GIVEN, shares=shares, node=intern(grant.node),
        namespace=intern(grant.namespace), uid=intern(grant.uid),
    )  # fmt: skip


class LedgerPod(Protocol):
    """What `LedgerPods` reads of a summary."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        ...

    @property
    def grant(self) -> Grant | None:
        """What it holds."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more."""
        ...

    @property
    def init_over(self) -> bool:
        """Whether its init containers have ended."""
        ...


P = TypeVar("P", bound=LedgerPod)


class LedgerPods(Generic[P]):
    """A handler that keeps the ledger's pods, and their summaries by group: a namespace, a node."""

    def __init__(self, ledger: Ledger, group_of: Callable[[P], str | None]) -> None:
        """`ledger` is written to by this alone, nodes and limits apart. Summaries whose group is
        None are not kept."""
        self._ledger = ledger
        self._group_of = group_of
        self._groups: dict[str, dict[str, P]] = {}
        """Group -> uid -> summary."""
        self._where: dict[str, str] = {}
        """Uid -> group."""

    def on_list(self, items: list[P], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`."""
        shown = {item.uid for item in items}
        taking = for_each(items, lambda item: self._take(item, now))
        yield from self._ledger.relist(shown, started, taking)
        for uid in self._where.keys() - shown:
            self._drop(uid)

    def on_event(self, change: WatchEventType, item: P, now: float) -> None:
        """See `Handler.on_event`."""
        if change is WatchEventType.DELETED:
            self._drop(item.uid)
            self._ledger.ended(item.uid)
        else:
            self._take(item, now)

    def _take(self, item: P, now: float) -> None:
        self._drop(item.uid)
        if item.ended:
            self._ledger.ended(item.uid)
        else:
            self._ledger.observe(_observed(item), now)
            self._put(item)

    def get(self, uid: str) -> P | None:
        """The summary of a living pod that is kept."""
        group = self._where.get(uid)
        return None if group is None else self._groups[group][uid]

    def group(self, name: str) -> Collection[P]:
        """The summaries of a group; empty where there is none."""
        return self._groups.get(name, {}).values()

    def groups(self) -> Collection[str]:
        """The names of all groups that have a pod."""
        return self._groups.keys()

    def _put(self, item: P) -> None:
        group = self._group_of(item)
        if group is not None:
            self._groups.setdefault(group, {})[item.uid] = item
            self._where[item.uid] = group

    def _drop(self, uid: str) -> None:
        group = self._where.pop(uid, None)
        if group is not None:
            del self._groups[group][uid]
            if not self._groups[group]:
                del self._groups[group]


def _observed(item: LedgerPod) -> ObservedPod:
    return ObservedPod(uid=item.uid, grant=item.grant, ended=item.ended, init_over=item.init_over)
