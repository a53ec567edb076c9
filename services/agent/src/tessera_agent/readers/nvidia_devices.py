"""How NVIDIA's devices get into containers, on the kinds of machines that there are.

Names and paths are those of k8s-device-plugin and nvidia-container-toolkit; CDI names are as
`nvidia-ctk cdi generate` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tessera_agent.delivery.settings import DeviceFeature
from tessera_agent.delivery.vendor_devices import (
    EVERY,
    ChannelDevices,
    FeatureDevices,
    VendorDevices,
)
from tessera_agent.readers.nvidia_machines import MachineKind, csv_nodes, kind_of
from tessera_core.vendors.nvidia import NONE_VISIBLE, VISIBLE
from tessera_schema.cards import Card

_ONLY: Final = "0"
"""The one card of a Tegra machine, as the toolkit calls it."""


def _node(card: Card) -> str:
    return f"/dev/nvidia{card.minor}" if card.minor >= 0 else ""


ORDINARY: Final = VendorDevices(
    kind="nvidia.com/gpu",
    variable=VISIBLE,
    nothing=NONE_VISIBLE,
    driver="none",
    mount="/var/run/nvidia-container-devices",
    node=_node,
    card_nodes="/dev/nvidia[0-9]*",
    nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
    features={
        DeviceFeature.GDRCOPY: FeatureDevices(
            name="GDRCopy", variable="NVIDIA_GDRCOPY", kind="nvidia.com/gdrcopy",
            nodes=("/dev/gdrdrv",),
        ),
        DeviceFeature.GDS: FeatureDevices(
            name="GPUDirect Storage", variable="NVIDIA_GDS", kind="nvidia.com/gds",
            nodes=("/dev/nvidia-fs*",), mounts=("/run/udev", "/etc/cufile.json"),
        ),
        DeviceFeature.MOFED: FeatureDevices(
            name="MOFED", variable="NVIDIA_MOFED", kind="nvidia.com/mofed",
            nodes=("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
        ),
    },
    channels=ChannelDevices(
        variable="NVIDIA_IMEX_CHANNELS", kind="nvidia.com/imex-channel",
        mount="/var/run/nvidia-container-devices/imex",
        node="/dev/nvidia-caps-imex-channels/channel",
    ),
    license_mounts={"/tmp/license": "license", "/usr/bin/vgpuvalidator": "vgpuvalidator"},  # noqa: S108  (where HAMi's library looks)
)  # fmt: skip
_WSL: Final = replace(
    ORDINARY, machine="WSL", separate=False, nodes=("/dev/dxg",), cdi_name=EVERY, features={},
    channels=None,
)  # fmt: skip
_TEGRA: Final = replace(
    ORDINARY, machine="a Tegra machine", separate=False, nodes=(), listed_name=_ONLY,
    cdi_name=_ONLY, features={}, channels=None,
)  # fmt: skip


def vendor_devices(root: Path) -> VendorDevices:
    """The facts, as they are on the machine whose root is there. It blocks."""
    match kind_of(root):
        case MachineKind.ORDINARY:
            return ORDINARY
        case MachineKind.WSL:
            return _WSL
        case MachineKind.TEGRA:
            return replace(_TEGRA, nodes=csv_nodes(root))
