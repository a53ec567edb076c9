"""Whether a container of this node may be created, by what is in memory at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tessera_agent.api.grant_keys import StoredGrantKeys
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.closed_cards import ClosedCards
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.devices.monitor import DeviceMonitor
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
from tessera_schema.grants import GRANT_KEY, Grant, Share


class ContainerAdmitter:
    """Admits containers of this node, and finds what those that run were granted."""

    def __init__(
        self, node: str, vendor: Vendor, vendors: Mapping[str, Vendor], *, keys: StoredGrantKeys,
        pods: NodePods, holdings: ContainerRegistry, devices: DeviceMonitor, closed: ClosedCards,
    ) -> None:  # fmt: skip
        """`vendors`: all, by name. What comes after it changes between two calls."""
        self._node = node
        self._vendor = vendor
        self._vendors = vendors
        self._keys = keys
        self._pods = pods
        self._holdings = holdings
        self._devices = devices
        self._closed = closed

    def admit(self, pod: PodSandbox, container: str) -> AdmissionDecision:
        """What the container is given, if there is room next to what is held."""
        key = ContainerKey(uid=pod.uid, container=container)
        return self._admit(pod, container, self._holdings.shares_by_pod(but=key))

    def admit_with_room(self, pod: PodSandbox, container: str) -> AdmissionDecision:
        """What the container is given once there is room for it."""
        return self._admit(pod, container, {})

    def proven(self, uid: str, text: str) -> Grant | None:
        """The grant of this pod that the scheduler signed; None where that is not certain (yet)."""
        if self._keys.verifier.problem(text):
            return None
        found = readable_grant(text, uid, self._node)
        return found if isinstance(found, Grant) else None

    def shares(self, grant: Grant, container: str) -> tuple[Share, ...]:
        """The container's shares of this vendor's cards, with the ids that the cards have here."""
        return tuple(
            self._with_local_id(share) for share in grant.shares
            if share.container == container and share.vendor == self._vendor.name
        )  # fmt: skip

    def found(
        self, pod: PodSandbox, container: str, *, adjusted: bool, stored: str = ""
    ) -> tuple[Share, ...]:
        """What a container that runs holds, whether there is room for it or not. One that was
        `adjusted` was admitted when it was created: the annotation, which the runtime shows as it
        was then, needs no other proof, and no key; nor does `stored`, the grant that an earlier
        agent stored."""
        grant = self._unproven(pod, stored) if adjusted else None
        if grant is None:
            decision = granted(self._creation(pod, container), self._context({}, None))
            grant = decision if isinstance(decision, Grant) else None
        if grant is None:
            return ()
        self._holdings.remember(grant)
        return self.shares(grant, container)

    def traceparent(self, pod: PodSandbox) -> str:
        """The trace that the pod's admission opened; empty = none."""
        return self._pods.traceparent(pod)

    def has_grant(self, pod: PodSandbox) -> bool:
        """Whether the pod has a grant, or had one."""
        return bool(self._texts(pod)) or self._holdings.granted(pod.uid) is not None

    def _admit(
        self, pod: PodSandbox, container: str, held: Mapping[str, Sequence[Share]]
    ) -> AdmissionDecision:
        context = self._context(held, self._holdings.granted(pod.uid))
        return admit_container(self._creation(pod, container), context)

    def _context(self, held: Mapping[str, Sequence[Share]], earlier: Grant | None) -> NodeContext:
        verifier = self._keys.verifier if self._keys.known.is_set() else None
        return NodeContext(
            node=self._node, vendor=self._vendor, vendors=self._vendors, verifier=verifier,
            cards=self._devices.cards_to_admit_on, held=held, earlier=earlier,
            closed=self._closed.left(asyncio.get_running_loop().time()),
            reclaims=self._closed.reclaims,
        )  # fmt: skip

    def _creation(self, pod: PodSandbox, container: str) -> ContainerCreation:
        return ContainerCreation(uid=pod.uid, container=container, texts=self._texts(pod))

    def _texts(self, pod: PodSandbox) -> tuple[str, ...]:
        shown = self._pods.get(pod.uid)
        texts = pod.annotations.get(GRANT_KEY), (shown.grant if shown else "") or None
        return tuple(dict.fromkeys(text for text in texts if text is not None))

    def _unproven(self, pod: PodSandbox, stored: str) -> Grant | None:
        """The newest of the pod's readable grants."""
        texts = pod.annotations.get(GRANT_KEY, ""), stored
        read = (readable_grant(text, pod.uid, self._node) for text in texts if text)
        found = [grant for grant in read if isinstance(grant, Grant)]
        earlier = self._holdings.granted(pod.uid)
        found += [earlier] if found and earlier is not None else []
        return max(found, key=lambda grant: grant.revision, default=None)

    def _with_local_id(self, share: Share) -> Share:
        card = card_of(share, self._node, self._devices.cards or {})
        return share if card is None else replace(share, card=card.id)
