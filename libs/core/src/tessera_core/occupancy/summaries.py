"""Nodes and pods cut down to what rows are made of, read from the API server's JSON.

A pod with a grant of Tessera's, which nearly every pod is that holds a card, is decoded no further
than its annotations. Signatures are not verified: it takes the ConfigMap of public keys, which not
everybody may read, and the API server lets nobody but the scheduler write a grant. A pod's name is
its own, whatever its grant says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.fleet.charges import init_is_over
from tessera_core.inventory.merge import cards_of
from tessera_core.occupancy.rows import RequestedPart
from tessera_core.recovery.adopt import adopt
from tessera_core.registry.registry import DialectRegistry
from tessera_core.reports.agents import Voices, voices_of
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import TERMINAL_PHASES, Node, ObjectMeta, Pod, PodSpec, PodStatus
from tessera_schema.requests import PodRequest


class CardNode(Struct, frozen=True, kw_only=True):
    """A node, its cards, and the agents that publish them."""

    name: str
    cards: tuple[Card, ...] = ()
    voices: Voices = {}
    closed: bool = False
    problems: tuple[str, ...] = ()


class HoldingPod(Struct, frozen=True, kw_only=True):
    """A bound pod that holds shares."""

    uid: str
    grant: Grant
    """Without what is injected."""
    created: str = ""
    phase: str = ""
    ending: bool = False
    """It is being deleted: it holds its cards until it is gone."""
    init_over: bool = False


class UnplacedPod(Struct, frozen=True, kw_only=True):
    """A pod that asks for cards and has no node."""

    namespace: str
    name: str
    uid: str
    created: str
    dialects: tuple[str, ...] = ()
    parts: tuple[RequestedPart, ...] = ()
    reason: str = ""


class NoCardsPod(Struct, frozen=True, kw_only=True):
    """A pod that has to do with no card, or holds none any more."""

    uid: str


CardPod = HoldingPod | UnplacedPod | NoCardsPod
CardsOn = Callable[[str], Sequence[Card]]


def _no_cards(node: str) -> Sequence[Card]:
    del node
    return ()


class _BoundSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _BoundStatus(Struct, frozen=True):
    phase: str = ""


class _BoundPod(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BoundSpec = _BoundSpec()
    status: _BoundStatus = _BoundStatus()


class _Condition(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _ConditionStatus(Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _ConditionPod(Struct, frozen=True):
    status: _ConditionStatus = _ConditionStatus()


_read_bound = decoder(_BoundPod)
_read_pod = decoder(Pod)
_read_conditions = decoder(_ConditionPod)
_read_node = decoder(Node)
_SCHEDULED: Final = "PodScheduled"


def read_node(registry: DialectRegistry, raw: bytes) -> CardNode:
    """Raises msgspec.DecodeError."""
    node = _read_node(raw)
    cards, warnings = cards_of(registry, node, {})
    return CardNode(
        name=node.name, cards=cards, voices=voices_of(node), closed=node.spec.unschedulable,
        problems=warnings,
    )  # fmt: skip


def read_pod(registry: DialectRegistry, raw: bytes, cards_on: CardsOn = _no_cards) -> CardPod:
    """`cards_on` gives the cards of a node, where it is known: some systems name a card by its
    number alone. Raises msgspec.DecodeError."""
    bound = _read_bound(raw)
    meta = bound.metadata
    if bound.status.phase in TERMINAL_PHASES:
        return NoCardsPod(uid=meta.uid)
    if not bound.spec.node_name:
        return _waiting(registry, _read_pod(raw), raw)
    own = GRANT_KEY in meta.annotations
    pod = _brief(bound) if own else _read_pod(raw)
    cards = () if own else cards_on(bound.spec.node_name)
    grant = adopt(registry, pod, cards, others=not own).grant
    if grant is None:
        return NoCardsPod(uid=meta.uid)
    inits = own and any(share.role == "init" for share in grant.shares)
    grant = replace(grant, given={}, namespace=meta.namespace, name=meta.name)
    return HoldingPod(
        uid=meta.uid, grant=grant, created=meta.creation_timestamp or "",
        phase=bound.status.phase, ending=meta.deletion_timestamp is not None,
        init_over=init_is_over(_read_pod(raw) if inits else pod),
    )  # fmt: skip


def _brief(bound: _BoundPod) -> Pod:
    return Pod(
        metadata=bound.metadata,
        spec=PodSpec(node_name=bound.spec.node_name),
        status=PodStatus(phase=bound.status.phase),
    )


def _waiting(registry: DialectRegistry, pod: Pod, raw: bytes) -> CardPod:
    admission = admit(registry, pod, allowed=EVERYTHING)
    meta = pod.metadata
    known = UnplacedPod(
        namespace=meta.namespace, name=meta.name, uid=meta.uid,
        created=meta.creation_timestamp or "", reason=_reason(raw),
    )  # fmt: skip
    match admission:
        case Rejected():
            return replace(known, reason=known.reason or f"rejected: {admission.message}")
        case AdmittedPod() if admission.request.containers:
            request = admission.request
            return replace(known, dialects=request.dialects, parts=tuple(_parts(request)))
        case _:
            return NoCardsPod(uid=meta.uid)


def _parts(request: PodRequest) -> list[RequestedPart]:
    return [
        RequestedPart(
            dialect=one.dialect, cards=one.count, memory_bytes=one.memory_bytes,
            memory_percent=one.memory_percent, cores_percent=one.cores_percent,
            exclusive=one.exclusive,
        )
        for container in request.containers
        for one in container.requests
    ]  # fmt: skip


def _reason(raw: bytes) -> str:
    """What kube-scheduler wrote on the pod."""
    try:
        conditions = _read_conditions(raw).status.conditions or ()
    except msgspec.DecodeError:
        return ""
    return next((c.message for c in conditions if c.type == _SCHEDULED), "")
