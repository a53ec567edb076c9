"""Words of NVIDIA's device plugin and of GPU Feature Discovery, and what may be configured."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DIALECT: Final = "replicas"
VENDOR: Final = "nvidia"

COUNT: Final = "nvidia.com/gpu.count"
"""Label of a node: physical cards."""
MEMORY: Final = "nvidia.com/gpu.memory"
"""Label: MiB of a card."""
PRODUCT: Final = "nvidia.com/gpu.product"
"""Label: model of the cards, with `-SHARED` where replicas keep the name of whole cards."""
REPLICAS: Final = "nvidia.com/gpu.replicas"
"""Label: replicas of each card, 1 = not shared, 0 = sharing is switched off in the plugin."""
STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
"""Label: none, time-slicing or mps."""
SHARED_SUFFIX: Final = "-SHARED"
MIG_PART: Final = "-MIG-"
"""In PRODUCT where all cards are cut into MIG instances (strategy single)."""
SHARING: Final = ("time-slicing", "mps")


class ReplicasOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names, and what the plugin's `sharing` section says."""

    shared: str = "nvidia.com/gpu.shared"
    """Resource: replicas (`renameByDefault: true`)."""
    whole: str = "nvidia.com/gpu"
    """Resource: replicas where the plugin does not rename. Read in pods that select nodes of shared
    cards, and with `plain`."""
    replicas: int = 0
    """Equal parts of a card (`sharing.timeSlicing.resources[].replicas`); 0 = as the labels of each
    node say, which is for plans: cards of Tessera's agent carry no such label, so an installation
    names the number."""
    plain: bool = False
    """Every pod that names `whole` and nothing else of another dialect means replicas: for clusters
    without renamed resources."""
    fail_requests_greater_than_one: bool = False
    """Refuse more than one replica of a container (`failRequestsGreaterThanOne`; its default is
    false with time-slicing, true with MPS)."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that are empty or mean two things, and for odd numbers."""
        if not self.shared or not self.whole:
            raise ValueError("shared and whole need a name each")
        if self.shared == self.whole:
            raise ValueError(f"resource {self.shared} is configured twice: rename one of them")
        if self.replicas < 0:
            raise ValueError(f"replicas {self.replicas}: write 2 or more, or 0")
