"""The pods that hold shares now, their owners and the cluster's cards, as the API server has them.

Everything is read with the caller's own rights. Owners' owners (ReplicaSets, Jobs) and nodes are
left out where the caller may not read them: the report then names the ReplicaSet, or no model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.kube.owner_references import controller_of
from tessera_core.recovery.adopt import adopt
from tessera_core.registry.registry import DialectRegistry
from tessera_core.utilization.owners import topmost
from tessera_core.utilization.recording import HolderPod, RecordedShare, WrittenContainer
from tessera_runtime.errors import ApiRefused
from tessera_runtime.informers.pods import BOUND
from tessera_runtime.kube import paths, timestamps
from tessera_runtime.kube.api import NONE, Kube
from tessera_runtime.kube.lists import pages
from tessera_schema.annotation_keys import CARDS_PREFIX, CLASS_KEY
from tessera_schema.cards import Card
from tessera_schema.grants import Grant, Share
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node, OwnerRef, Pod
from tessera_schema.node_cards import decode_node_cards
from tessera_schema.requests import Role

_PAGE: Final = 500
_PARENTS: Final = {
    "ReplicaSet": paths.in_group("apps", "v1", "replicasets"),
    "Job": paths.in_group("batch", "v1", "jobs"),
}
"""Kind -> where those that have an owner themselves are."""


class _Meta(Struct, frozen=True, rename="camel"):
    uid: str = ""
    owner_references: tuple[OwnerRef, ...] = ()


class _Owned(Struct, frozen=True):
    metadata: _Meta = _Meta()


class GrantedPod(Struct, frozen=True, kw_only=True):
    """A pod that holds shares now."""

    holder: HolderPod
    grant: Grant


class ClusterHolders(Struct, frozen=True, kw_only=True):
    """What was read."""

    pods: Mapping[str, GrantedPod] = {}
    """By uid."""
    nodes: tuple[Node, ...] = ()
    cards: Mapping[str, Card] = {}
    """By id."""
    problems: tuple[str, ...] = ()
    """What could not be read, a sentence each."""


_pod: Final = decoder(Pod)
_node: Final = decoder(Node)
_owned: Final = decoder(_Owned)


async def read_holders(kube: Kube, registry: DialectRegistry) -> ClusterHolders:
    """All of it. Raises as `Kube.call` does where pods cannot be read."""
    problems: list[str] = []
    found = [
        (pod, grant, controller_of(_owned(raw).metadata.owner_references))
        async for raw in _objects(kube, paths.PODS, {"fieldSelector": BOUND})
        if (pod := _pod(raw)).spec.node_name and not pod.terminal
        and (grant := _grant_of(pod, registry, problems)) is not None
    ]  # fmt: skip
    kinds = {owner.kind for _, _, owner in found if owner is not None}
    parents: dict[str, OwnerRef] = {}
    for kind, path in _PARENTS.items():
        if kind in kinds:
            parents |= await _parents(kube, kind, path, problems)
    nodes = await _nodes(kube, problems)
    cards = {card.id: card for node in nodes for card in published_cards(node)}
    return ClusterHolders(
        pods={
            pod.metadata.uid: GrantedPod(
                holder=_holder(
                    pod, grant, registry, cards, topmost(owner, parents) if owner else None
                ),
                grant=grant,
            )
            for pod, grant, owner in found
        },
        nodes=nodes,
        cards=cards,
        problems=tuple(dict.fromkeys(problems)),
    )  # fmt: skip


def published_cards(node: Node) -> list[Card]:
    """The node's cards as Tessera's agents publish them."""
    found: list[Card] = []
    for key, text in node.metadata.annotations.items():
        if key.startswith(CARDS_PREFIX):
            with suppress(msgspec.DecodeError):  # `tessera explain` says what is wrong with it
                found += decode_node_cards(text).cards
    return found


async def _parents(
    kube: Kube, kind: str, path: str, problems: list[str]
) -> Mapping[str, OwnerRef]:  # fmt: skip
    found = {}
    try:
        async for raw in _objects(kube, path):
            meta = _owned(raw).metadata
            owner = controller_of(meta.owner_references)
            if owner is not None:
                found[meta.uid] = owner
    except (ApiRefused, msgspec.DecodeError) as e:
        problems.append(f"owners of {kind}s are not known: {e}")
    return found


async def _nodes(kube: Kube, problems: list[str]) -> tuple[Node, ...]:
    try:
        return tuple([_node(raw) async for raw in _objects(kube, paths.NODES)])
    except (ApiRefused, msgspec.DecodeError) as e:
        problems.append(f"cards are not known, nor their models and prices: {e}")
        return ()


async def _objects(kube: Kube, path: str, query: Mapping[str, str] = NONE) -> AsyncGenerator[bytes]:
    async for page in pages(kube, path, limit=_PAGE, query=query):
        for raw in page.items or ():
            yield bytes(raw)


def _grant_of(pod: Pod, registry: DialectRegistry, problems: list[str]) -> Grant | None:
    """Its signature is not verified, as in plans: only Tessera's accounts may write it."""
    adopted = adopt(registry, pod, (), others=False)
    if adopted.problem:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        problems.append(f"pod {name} is left out: {adopted.problem}")
    return adopted.grant


def _holder(
    pod: Pod, grant: Grant, registry: DialectRegistry, cards: Mapping[str, Card],
    owner: OwnerRef | None,
) -> HolderPod:  # fmt: skip
    meta, spec = pod.metadata, pod.spec
    choices = {key for dialect in registry.readers.values() for key in dialect.choices}
    wanted = registry.request_keys | choices | {CLASS_KEY}
    started = timestamps.parse_time(pod.status.start_time)
    created = timestamps.parse_time(meta.creation_timestamp)
    return HolderPod(
        namespace=meta.namespace or "default", name=meta.name, uid=meta.uid, node=spec.node_name,
        owner_kind=owner.kind if owner else "", owner=owner.name if owner else "",
        started=started or created or 0, scheduler=spec.scheduler_name, labels=meta.labels,
        annotations={k: v for k, v in meta.annotations.items() if k in wanted},
        containers=tuple(
            WrittenContainer(
                name=one.name, limits=one.resources.limits, init=init,
                sidecar=init and one.restart_policy == "Always",
            )
            for init, several in ((True, spec.init_containers), (False, spec.containers))
            for one in several
        ),
        shares=tuple(
            RecordedShare(
                container=share.container, card=share.card, memory_bytes=share.memory_bytes,
                card_bytes=cards[share.card].memory_bytes if share.card in cards else 0,
                resizable=_resizable(share, registry),
            )
            for share in grant.shares
        ),
    )  # fmt: skip


def _resizable(share: Share, registry: DialectRegistry) -> bool:
    vendor = registry.vendors.get(share.vendor)
    hooked = vendor is not None and vendor.hooked
    return hooked and share.role is Role.APP and not share.exclusive
