"""A pod of the API server reduced to what the ledger needs, as it comes from a list or a watch.

A list of 50,000 pods is read one by one: what is kept of each is its grant, or nothing. A signature
is verified once per text: a grant that was verified or signed here is known by its digest, and the
ledger's own copy is used again, so that a second list costs neither time nor memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.charges import init_is_over
from tessera_core.gangs.catalog import queue_named
from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.group_names import named_group
from tessera_core.grants.resize import follows
from tessera_core.kube.host_requests import NOTHING, Host, of_pod
from tessera_core.kube.owner_references import owner_of
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.recovery.adopt import adopt
from tessera_core.recovery.estimate import estimate_shares
from tessera_core.registry.plugin_requests import StartingPod, plugin_requests
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.node_reservations import NodeReservation
from tessera_core.shadows.expected_ends import UNSAID, LifeSpan, lasts_s
from tessera_core.trust.grants import Verifier
from tessera_runtime.kube.lists import Identity
from tessera_runtime.kube.timestamps import parse_time
from tessera_scheduler.cache.reserved_room import reservation_of
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.injections import Injection
from tessera_schema.json_codec import decoder
from tessera_schema.kube import ObjectMeta, Pod
from tessera_schema.resizes import RESIZE_KEY

ReadVictim = Callable[[Pod, Grant | None, Host], PotentialVictim | None]
"""Reads what counts of a bound pod with this grant, and this request of its host, when it may have
to go; None where it never has to."""


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Least(Struct, frozen=True):
    """What can be read of any object that the API server calls a pod."""

    metadata: Identity = Identity()
    spec: _Spec = _Spec()


_NOTHING_GIVEN: Final[Mapping[str, Injection]] = {}
_decode = decoder(Pod)
_decode_least = decoder(_Least)


class _Read(Struct, frozen=True, gc=False):
    digest: bytes
    """Of the text that a pod bore."""
    grant: Grant
    """What was in it."""


class PodSummary(Struct, frozen=True, kw_only=True, gc=False):
    """What the API server shows of one pod."""

    uid: str
    namespace: str = ""
    name: str = ""
    node: str = ""
    """Empty = not bound."""
    grant: Grant | None = None
    ended: bool = False
    init_over: bool = False
    forged: str = ""
    """What is wrong with a grant that this scheduler did not make for it."""
    unknown: bool = False
    """A valid grant of another release: the node is closed while the pod lives."""
    unwritten: bool = False
    """It is bound and asks for cards, and nothing that counts says which."""
    resize: bool = False
    """It carries a request for other amounts."""
    remark: str = ""
    """What an operator should know of how it was read."""
    reserved: NodeReservation | None = None
    """Of a pod that waits: the room that is made for it."""
    start: StartingPod | None = None
    """Of a bound pod that has not started."""
    host: Host = NOTHING
    """Of a bound pod, with cards or without: what it requests of its host."""
    member: Pod | None = None
    """The whole pod, where it has Tessera's scheduling gate, or names a gang or a queue and
    gangs start whole."""
    life: LifeSpan = UNSAID
    """Of a bound pod, where gangs start whole."""
    victim: PotentialVictim | None = None
    """Of a bound pod that may have to go for others: what counts then."""

    @property
    def observed(self) -> ObservedPod:
        """The pod as the ledger observes it."""
        return ObservedPod(
            uid=self.uid, grant=self.grant, ended=self.ended, init_over=self.init_over
        )


class PodReader:
    """Makes summaries of pods."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        verifier: Verifier,
        *,
        migration: bool,
        gangs: bool = False,
        read_victim: ReadVictim | None = None,
    ) -> None:
        """`verifier` has the keys known at each moment; with `migration` what other systems wrote
        on running pods counts too; with `gangs` the pods of gangs are kept whole, with
        `read_victim` what counts of a pod that may have to go for others."""
        self._registry = registry
        self._ledger = ledger
        self._verifier = verifier
        self._migration = migration
        self._gangs = gangs
        self._read_victim = read_victim
        self._resources, self._request_keys = registry.resources, registry.request_keys
        self._starts = plugin_requests(registry)
        self._read: dict[str, _Read] = {}
        """By the pod's uid."""

    def read(self, raw: bytes | msgspec.Raw) -> PodSummary:
        """Raises msgspec.DecodeError for what is no object. A pod of another form than today's must
        not be taken for one that is gone: it closes its node."""
        try:
            pod = _decode(bytes(raw))
            summary = self.summarize(pod)
            if summary.node and not summary.ended:
                summary = self._with_life(pod, summary)
            whole = is_gated(pod) or (self._gangs and _names_gang_or_queue(pod))
            return replace(summary, member=pod) if whole else summary
        except msgspec.DecodeError as e:
            least = _decode_least(bytes(raw))
            meta = least.metadata
            return PodSummary(
                uid=meta.uid, namespace=meta.namespace, name=meta.name, node=least.spec.node_name,
                unknown=bool(least.spec.node_name), remark=f"it cannot be read: {e}",
            )  # fmt: skip

    def _with_life(self, pod: Pod, summary: PodSummary) -> PodSummary:
        """The summary of a pod that runs, with what others need of such pods."""
        victim = None
        if self._read_victim is not None:
            victim = self._read_victim(pod, summary.grant, summary.host)
        if self._gangs:
            return replace(summary, victim=victim, life=_life(pod))
        return summary if victim is None else replace(summary, victim=victim)

    def summarize(self, pod: Pod) -> PodSummary:
        """What the ledger needs of the pod."""
        meta = pod.metadata
        node, text = intern(pod.spec.node_name), meta.annotations.get(GRANT_KEY)
        resize, ended = RESIZE_KEY in meta.annotations, pod.terminal
        if ended or not node:
            return PodSummary(
                uid=meta.uid, namespace=meta.namespace, name=meta.name, node=node, ended=ended,
                resize=resize, reserved=None if ended else reservation_of(self._registry, pod),
            )  # fmt: skip
        known = self._known(meta.uid, node, text)
        summary = PodSummary(
            uid=meta.uid if known is None else known.uid, namespace=intern(meta.namespace),
            name=meta.name, node=node, resize=resize,
            host=of_pod(pod), start=self._starts.starting_pod(pod), grant=known,
            init_over=init_is_over(pod),
        )  # fmt: skip
        return summary if known is not None else self._adopted(pod, summary, text)

    def signed(self, grant: Grant, text: str) -> None:
        """The scheduler signed the grant: this is its text."""
        self._read[grant.uid] = _Read(_digest(text), grant)

    def is_signed(self, uid: str) -> bool:
        """True when the ledger's grant of the pod carries a signature of this scheduler's."""
        return uid in self._read

    def missing_grant(self, pod: Pod) -> Grant | None:
        """The grant that the ledger has for a live, bound pod, where the pod does not carry it."""
        entry = self._ledger.entry(pod.metadata.uid)
        if pod.terminal or entry is None or entry.phase is not AllocationPhase.BOUND:
            return None
        return None if self.summarize(pod).grant == entry.grant else entry.grant

    def bears_its_grant(self, pod: Pod) -> bool:
        """Whether a bound pod shows the grant that the ledger has, signed."""
        uid = pod.metadata.uid
        entry = self._ledger.entry(uid)
        return (
            entry is not None and entry.phase is AllocationPhase.BOUND and self.is_signed(uid)
            and self.summarize(pod).grant == entry.grant
        )  # fmt: skip

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._read.pop(uid, None)

    def _known(self, uid: str, node: str, text: str | None) -> Grant | None:
        """The ledger's grant, where the pod still carries the very text it was read from, or where
        it was taken over from another system. What was read need not be in the ledger: audits read
        pods of which no event has come yet."""
        entry = self._ledger.entry(uid)
        if entry is None or entry.grant.node != node:
            return None
        read = self._read.get(uid)
        if read is None:
            same = text is None and entry.phase is AllocationPhase.BOUND
        else:
            same = (
                text is not None
                and (read.grant is entry.grant or read.grant == entry.grant)
                and _digest(text) == read.digest
            )
        return entry.grant if same else None

    def _adopted(self, pod: Pod, summary: PodSummary, text: str | None) -> PodSummary:
        row = self._ledger.fleet.rows.get(summary.node)
        cards = () if row is None else self._ledger.fleet.facts[row]
        adopted = adopt(self._registry, pod, cards, verifier=self._verifier, others=self._migration)
        if adopted.grant is not None and text is not None and not adopted.forged:
            grant = _lean(adopted.grant, pod.metadata)
            entry = self._ledger.entry(summary.uid)
            if entry is None or entry.grant == grant or follows(grant, entry.grant):
                self._read[summary.uid] = _Read(_digest(text), grant)
            return replace(summary, grant=grant)
        summary = replace(
            summary, grant=adopted.grant, unknown=adopted.unknown_version, remark=adopted.problem,
            forged=adopted.problem if adopted.forged else "",
        )  # fmt: skip
        if adopted.grant is not None or adopted.unknown_version or not self._requests_cards(pod):
            return summary
        if not self._migration:
            return replace(summary, unwritten=True)
        counted = estimate_shares(self._registry, self._ledger.fleet, pod)
        return replace(
            summary, grant=counted.grant, unknown=counted.closes,
            remark="; ".join(t for t in (adopted.problem, counted.note) if t),
        )  # fmt: skip

    def _requests_cards(self, pod: Pod) -> bool:
        by_annotation = not self._request_keys.isdisjoint(pod.metadata.annotations)
        return by_annotation or any(
            not self._resources.isdisjoint(amounts)
            for c in pod.all_containers
            for amounts in (c.resources.limits, c.resources.requests)
        )


def _lean(grant: Grant, meta: ObjectMeta) -> Grant:
    """The pod's grant without what was injected, which is the larger part of it, and with names
    that are there once: the pod's, and those that pods and nodes have in common."""
    shares = tuple(
        replace(
            share, container=intern(share.container), vendor=intern(share.vendor),
            dialect=intern(share.dialect), card=intern(share.card),
        )
        for share in grant.shares
    )  # fmt: skip
    return replace(
        grant, given=_NOTHING_GIVEN, shares=shares, node=intern(grant.node),
        namespace=intern(grant.namespace), uid=meta.uid,
        name=meta.name if meta.name == grant.name else grant.name,
    )  # fmt: skip


def _names_gang_or_queue(pod: Pod) -> bool:
    return named_group(pod) is not None or bool(queue_named(pod)[0])


def _life(pod: Pod) -> LifeSpan:
    since = parse_time(pod.status.start_time) or parse_time(pod.metadata.creation_timestamp) or 0
    lasts = lasts_s(pod)
    return LifeSpan(since, lasts, "" if lasts is None else owner_of(pod.metadata))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
