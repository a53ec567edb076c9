"""Pods as hints and lending see them: what their containers were granted, by node."""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.kube.owner_references import controller_of
from tessera_core.registry.registry import DialectRegistry
from tessera_core.shared_values import SharedValues
from tessera_core.slices import Slices, for_each
from tessera_core.usage.lending_terms import GrantedShare, Holders, granted_shares_of
from tessera_core.usage.smoothed import Key
from tessera_runtime.informers.pods import DecodedPod
from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import OwnerRef


class _OwnedMeta(Struct, frozen=True, rename="camel"):
    owner_references: tuple[OwnerRef, ...] = ()


class _Owned(Struct, frozen=True):
    metadata: _OwnedMeta = _OwnedMeta()


_owned = decoder(_Owned)


class GrantedPodSummary(Struct, frozen=True, kw_only=True):
    """One bound pod, and the shares of its containers."""

    uid: str
    node: str = ""
    grant: Grant | None = None
    """None once it has ended."""
    shares: tuple[tuple[Key, GrantedShare], ...] = ()
    """What its containers have of it."""


def summary(
    decoded: DecodedPod,
    whole: Grant | None,
    kept: Grant | None,
    registry: DialectRegistry,
    shared: SharedValues,
) -> GrantedPodSummary:
    """What hints need of a pod; `whole` is its grant, and `kept` the same without injections.
    `shared` has what pods have in common."""
    if decoded.pod.terminal or not decoded.node or whole is None or kept is None:
        return GrantedPodSummary(uid=decoded.uid)
    full = replace(kept, given=whole.given)
    shares = granted_shares_of(full, decoded.pod, registry, _controller(decoded.raw))
    return GrantedPodSummary(
        uid=intern(decoded.uid),
        node=kept.node,
        grant=kept,
        shares=tuple((key, shared.one(share)) for key, share in shares.items()),
    )


def _controller(raw: bytes) -> str:
    """The uid of what made the pod; empty where nothing did, or it is written in an odd form."""
    try:
        owner = controller_of(_owned(raw).metadata.owner_references)
    except msgspec.DecodeError:
        return ""
    return owner.uid if owner is not None else ""


class GrantedPods:
    """A handler that keeps all pods that hold cards."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        """Nodes on which pods came or went; the reader takes them out."""
        self._on: dict[str, Holders] = {}
        """Each mapping is as it was made: a change makes another one."""
        self._of: dict[str, Grant] = {}

    def on(self, node: str) -> Holders:
        """What containers on a node were granted."""
        return self._on.get(node, {})

    def grant_of(self, uid: str) -> Grant | None:
        """What a bound pod was granted; None where it holds nothing, or has ended."""
        return self._of.get(uid)

    def on_list(self, items: list[GrantedPodSummary], started: float, now: float) -> Slices[None]:
        """See `Handler.on_list`."""
        del started, now
        for uid in self._of.keys() - {item.uid for item in items}:
            self._drop(uid)
        yield from for_each(items, self._put)

    def on_event(self, change: WatchEventType, item: GrantedPodSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self._drop(item.uid)
        else:
            self._put(item)

    def _put(self, item: GrantedPodSummary) -> None:
        same = item.grant is not None and self._of.get(item.uid) == item.grant
        on_node = self.on(item.node)
        if same and all(on_node.get(key) == share for key, share in item.shares):
            return  # something else about the pod has changed
        self._drop(item.uid)
        if item.grant is not None and item.shares:
            self._on[item.node] = {**self.on(item.node), **dict(item.shares)}
            self._of[item.uid] = item.grant
            self.changed.add(item.node)

    def _drop(self, uid: str) -> None:
        before = self._of.pop(uid, None)
        if before is not None:
            self.changed.add(before.node)
            on_node = self._on.pop(before.node)
            left = {key: one for key, one in on_node.items() if key[0] != before.uid}
            if left:
                self._on[before.node] = left
