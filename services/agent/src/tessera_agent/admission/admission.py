"""What is known on this node at the moment a container is created, brought before the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.api.grant_keys import StoredGrantKeys
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import ContainerKey
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.node.container_admission import (
    AdmissionDecision,
    ContainerCreation,
    NodeContext,
    admit_container,
    card_of,
    granted,
    readable_grant,
)
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant, Share

Cards = Callable[[], Mapping[str, Card] | None]
"""This vendor's cards by id; None while nobody has seen them."""


class AdmissionDependencies(Struct, frozen=True, kw_only=True):
    """All of it in memory."""

    node: str
    vendor: Vendor
    vendors: Mapping[str, Vendor]
    keys: StoredGrantKeys
    pods: NodePods
    holdings: ContainerRegistry
    cards: Cards


class ContainerAdmitter:
    """Judges containers of this node."""

    def __init__(self, knowledge: AdmissionDependencies) -> None:
        """Everything in it may change while the judge sits."""
        self._know = knowledge

    def admit(self, pod: PodSandbox, container: str, *, beside: bool = True) -> AdmissionDecision:
        """What the container is given now; `beside` what is held, or when there is room for it."""
        know, key = self._know, ContainerKey(uid=pod.uid, container=container)
        held = know.holdings.held(but=key) if beside else {}
        scene = self._scene(held=held, earlier=know.holdings.granted(pod.uid))
        return admit_container(self._asked(pod, container), scene)

    def proven(self, uid: str, text: str) -> Grant | None:
        """The grant of this pod that the scheduler signed; None where that cannot be told (yet)."""
        verifier = self._know.keys.verifier
        if verifier is None or verifier.problem(text):
            return None
        found = readable_grant(text, uid, self._know.node)
        return found if isinstance(found, Grant) else None

    def shares(self, grant: Grant, container: str) -> tuple[Share, ...]:
        """The container's of this vendor's cards, with the ids that these have here."""
        return tuple(
            self._here(share) for share in grant.shares
            if share.container == container and share.vendor == self._know.vendor.name
        )  # fmt: skip

    def found(
        self, pod: PodSandbox, container: str, *, adjusted: bool, kept: str = ""
    ) -> tuple[Share, ...]:
        """What a container that runs holds, whether there is room for it or not. One that was
        `adjusted` was judged when it was created: the annotation, which the runtime has kept as
        it was, needs no other proof, and no key; nor does `kept`, which the agent before us
        remembered."""
        know = self._know
        grant = self._unproven(pod, kept) if adjusted else None
        if grant is None:
            verdict = granted(self._asked(pod, container), self._scene())
            grant = verdict if isinstance(verdict, Grant) else None
        if grant is None:
            return ()
        know.holdings.remember(grant)
        return self.shares(grant, container)

    def traceparent(self, pod: PodSandbox) -> str:
        """The trace that the pod's admission opened; empty = none."""
        shown = self._know.pods.get(pod.uid)
        return pod.annotations.get(TRACE_KEY) or (shown.traceparent if shown else "")

    def concerns(self, pod: PodSandbox) -> bool:
        """Whether the pod bears a grant, or bore one."""
        return bool(self._texts(pod)) or self._know.holdings.granted(pod.uid) is not None

    def _scene(self, **more: Any) -> NodeContext:
        know = self._know
        return NodeContext(
            node=know.node, vendor=know.vendor, vendors=know.vendors,
            verifier=know.keys.verifier, cards=know.cards(), **more,
        )  # fmt: skip

    def _asked(self, pod: PodSandbox, container: str) -> ContainerCreation:
        return ContainerCreation(uid=pod.uid, container=container, texts=self._texts(pod))

    def _texts(self, pod: PodSandbox) -> tuple[str, ...]:
        shown = self._know.pods.get(pod.uid)
        texts = pod.annotations.get(GRANT_KEY), (shown.grant if shown else "") or None
        return tuple(dict.fromkeys(text for text in texts if text is not None))

    def _unproven(self, pod: PodSandbox, kept: str) -> Grant | None:
        """The last one of those that are known."""
        texts = pod.annotations.get(GRANT_KEY, ""), kept
        read = (readable_grant(text, pod.uid, self._know.node) for text in texts if text)
        found = [grant for grant in read if isinstance(grant, Grant)]
        earlier = self._know.holdings.granted(pod.uid)
        found += [earlier] if found and earlier is not None else []
        return max(found, key=lambda grant: grant.revision, default=None)

    def _here(self, share: Share) -> Share:
        card = card_of(share, self._know.node, self._know.cards() or {})
        return share if card is None else replace(share, card=card.id)
