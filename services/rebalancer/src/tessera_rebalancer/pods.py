"""Pods reduced to what hints and lending need: what their containers were granted, by node.

A pod that cannot be read keeps what it was last seen to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.fleet import Fleet
from tessera_core.registry.registry import DialectRegistry
from tessera_core.trust.grants import Verifier
from tessera_core.usage.lending_terms import GrantedShare, Holders, granted_shares_of
from tessera_core.usage.smoothed import Key
from tessera_runtime.informers.grants import LIVING, GrantReader
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

BOUND: Final = {"fieldSelector": f"{LIVING['fieldSelector']},spec.nodeName!="}
"""Those of the living that have a node."""
_pod: Final = decoder(Pod)


class GrantedPodSummary(Struct, frozen=True, kw_only=True):
    """What the API server shows of one bound pod."""

    uid: str
    node: str = ""
    grant: Grant | None = None
    """None once it has ended."""
    held: Mapping[Key, GrantedShare] = {}
    """What its containers have of it."""


class GrantedPodReader:
    """Reads pods."""

    def __init__(
        self, registry: DialectRegistry, fleet: Fleet, verifier: Callable[[], Verifier], *,
        migration: bool,
    ) -> None:  # fmt: skip
        """With `migration` what other systems wrote on pods counts too, for the fleet's cards."""
        self._registry = registry
        self._granted = GrantReader(registry, fleet, verifier, migration=migration)

    def watched(self) -> ListWatch[GrantedPodSummary]:
        """Where they are."""
        return ListWatch(paths.PODS, self.read, BOUND)

    def read(self, raw: bytes) -> GrantedPodSummary:
        """Raises msgspec.DecodeError."""
        pod = _pod(raw)
        uid, node = pod.metadata.uid, pod.spec.node_name
        if pod.terminal or not node:
            return GrantedPodSummary(uid=uid)
        grant = self._granted.of(pod)
        held = {} if grant is None else granted_shares_of(grant, pod, self._registry)
        if grant is not None:
            grant = replace(grant, given={})
        return GrantedPodSummary(uid=uid, node=node, grant=grant, held=held)


class GrantedPods:
    """All pods that hold cards; a sink."""

    def __init__(self) -> None:
        """No pod is known."""
        self._on: dict[str, dict[Key, GrantedShare]] = {}
        self._of: dict[str, GrantedPodSummary] = {}

    def on(self, node: str) -> Holders:
        """What containers on a node were granted."""
        return self._on.get(node, {})

    def grant_of(self, uid: str) -> Grant | None:
        """What a bound pod was granted; None where it holds nothing, or has ended."""
        pod = self._of.get(uid)
        return None if pod is None else pod.grant

    def on_list(self, items: list[GrantedPodSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self._on, self._of = {}, {}
        for item in items:
            self._know(item)

    def on_event(self, change: WatchEventType, item: GrantedPodSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        self._forget(item.uid)
        if change is not WatchEventType.DELETED:
            self._know(item)

    def _know(self, item: GrantedPodSummary) -> None:
        if item.held:
            self._on.setdefault(item.node, {}).update(item.held)
            self._of[item.uid] = item

    def _forget(self, uid: str) -> None:
        before = self._of.pop(uid, None)
        if before is not None:
            held = self._on[before.node]
            for key in before.held:
                held.pop(key, None)
            if not held:
                del self._on[before.node]
