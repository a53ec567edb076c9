"""Keeps containers that hold nothing of this vendor's cards from seeing any."""

from __future__ import annotations

from collections.abc import Collection

from tessera_agent.containers.adjustment import card_mount, sees_cards
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_core.dialect_kit.contract import Vendor
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox


class HiddenCards:
    """Decides from which pods the cards are hidden, and finds containers that see them."""

    def __init__(
        self, vendor: Vendor, devices: DeviceMonitor, exempt_namespaces: Collection[str]
    ) -> None:
        self._vendor = vendor
        self._devices = devices
        self._exempt_namespaces = frozenset(exempt_namespaces)

    def are_hidden_from(self, pod: PodSandbox) -> bool:
        """Whether containers of the pod that hold nothing must see nothing: not in exempt
        namespaces, nor where another plugin hands out these cards."""
        return pod.namespace not in self._exempt_namespaces and not self._devices.left_to_others

    def mount_in(self, pod: PodSandbox, container: ContainerInfo) -> str:
        """Path of a mount by which the container would see cards that are hidden from its pod;
        empty where it has none."""
        return card_mount(self._vendor, container) if self.are_hidden_from(pod) else ""

    def are_visible_to(self, pod: PodSandbox, container: ContainerInfo) -> bool:
        """Whether a container that holds nothing sees cards that are hidden from its pod."""
        return self.are_hidden_from(pod) and (
            sees_cards(self._vendor, container.env) or bool(card_mount(self._vendor, container))
        )
