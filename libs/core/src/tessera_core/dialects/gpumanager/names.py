"""Names and units of GPU Manager's wire, for one prefix."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DIALECT: Final = "gpumanager"
VENDOR: Final = "nvidia"
WHOLE: Final = 100
"""Core units of a card."""
BLOCK: Final = 256 << 20
"""Bytes of one memory unit."""
MOST_BLOCKS: Final = ((1 << 31) - 1) // 256
"""Memory units whose MiB still fit into 32 bits."""
CORE_HINT: Final = (
    "It counts percent: 1 to 99 for a part of one card, a multiple of 100 for whole cards."
)


class PrefixNames(Struct, frozen=True):
    """All names that begin with one prefix."""

    prefix: str

    @property
    def core(self) -> str:
        """Resource: percent of a card."""
        return f"{self.prefix}/vcuda-core"

    @property
    def memory(self) -> str:
        """Resource: units of 256 MiB."""
        return f"{self.prefix}/vcuda-memory"

    @property
    def core_limit(self) -> str:
        """Pod annotation, the user's: ceiling for idle cores, in percent."""
        return f"{self.prefix}/vcuda-core-limit"

    @property
    def device(self) -> str:
        """Container annotation: paths of the device nodes."""
        return f"{self.prefix}/vcuda-device"

    @property
    def time(self) -> str:
        """Result: when the node was chosen, in nanoseconds."""
        return f"{self.prefix}/predicate-time"

    @property
    def node(self) -> str:
        """Result: the node's name."""
        return f"{self.prefix}/predicate-node"

    @property
    def index(self) -> str:
        """Result: begins the keys with a container's card numbers; the container's number in
        `spec.containers` follows."""
        return f"{self.prefix}/predicate-gpu-idx-"

    @property
    def assigned(self) -> str:
        """Result: "false" until the node agent has given the cards."""
        return f"{self.prefix}/gpu-assigned"

    @property
    def results(self) -> tuple[str, ...]:
        """Keys that users must not write. The last ones are those of Inspur's fork."""
        return (
            self.time, self.node, f"{self.index}*", self.assigned,
            f"{self.prefix}/gpu-mod-idx-*", f"{self.prefix}/gpu-index-idx-*",
            f"{self.prefix}/gpu-gpuPcieId-*",
        )  # fmt: skip
