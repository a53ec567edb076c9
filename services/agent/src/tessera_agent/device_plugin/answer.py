"""Kubelet's answer for a container: its devices, its variables, and the mounts of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessera_agent.delivery.injector import InjectedDevices
from tessera_core.dialect_kit.contract import Vendor
from tessera_kubelet.device_plugin.types import ContainerAllocation, DeviceNode
from tessera_schema.injections import Mount


class AllocationRenderer:
    """Renders what kubelet gets for containers of one vendor's cards."""

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor

    def render(
        self, devices: InjectedDevices, env: Mapping[str, str], mounts: Sequence[Mount]
    ) -> ContainerAllocation:
        """The answer for a container with these devices, variables and mounts of files."""
        injection = devices.injection
        return ContainerAllocation(
            env={**self._harmless_env(), **env},
            mounts=(*injection.mounts, *mounts),
            annotations=injection.annotations,
            devices=tuple(DeviceNode(path=path, source=path) for path in injection.devices),
            cdi_devices=devices.cdi,
        )

    def render_without_cards(self, env: Mapping[str, str]) -> ContainerAllocation:
        """The answer for a container that holds nothing."""
        return ContainerAllocation(env={**self._harmless_env(), **env})

    def _harmless_env(self) -> Mapping[str, str]:
        """Variables by which an image would get other devices, emptied: kubelet does not say what
        the image sets, and the answer's variables replace the image's."""
        guarded = self.vendor.guarded_env.items()
        return {name: "" for name, harmless in guarded if "" in harmless and "*" not in name}
