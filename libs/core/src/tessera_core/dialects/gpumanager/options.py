"""What may be configured."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class GpuManagerOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Prefixes of resources and annotations, and paths on the node."""

    prefixes: tuple[str, ...] = ("tencent.com", "inspur.com")
    """Accepted prefixes of `<prefix>/vcuda-core` and the others; the first is preferred where a
    node publishes several. GPU Manager is built with one of them."""
    model_labels: tuple[str, ...] = ("gaia.tencent.com/gpu-model", "tkestack.io/gpu-model")
    """Node labels that name the cards' model; the first that a node has counts. GPU Manager's
    node labeller and gpu-admission's documents."""
    driver_directory: str = "/etc/gpu-manager/vdriver"
    """Directory on the node with the driver's files as `nvidia` (for parts of cards) and
    `origin` (for whole cards), mounted at /usr/local/nvidia. GPU Manager's volume.conf. Our own
    agent mounts links there instead, to the driver that the runtime gives."""
    pod_directory: str = "/etc/gpu-manager/vm"
    """Directory on the node with one directory for each pod's uid, mounted at /etc/vcuda. GPU
    Manager's --virtual-manager-path."""

    def __post_init__(self) -> None:
        """Raise ValueError for prefixes that cannot be, and for relative directories."""
        if not self.prefixes:
            raise ValueError("prefixes: name at least one, or switch the dialect off")
        for prefix in self.prefixes:
            if not _PREFIX.fullmatch(prefix):
                raise ValueError(f"prefixes: {prefix!r} is no DNS name such as tencent.com")
        if len(set(self.prefixes)) < len(self.prefixes):
            raise ValueError("prefixes: each one once")
        for directory in (self.driver_directory, self.pod_directory):
            if not directory.startswith("/"):
                raise ValueError(f"{directory!r} must be an absolute path on the node")
