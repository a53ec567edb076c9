"""What can be set of how devices get into containers, and of the toolkit that gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.settings import Seconds

MOST_CHANNEL: Final = (1 << 20) - 1
"""An IMEX channel's number is its device node's minor number, which has 20 bits."""
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/")


class CardDelivery(StrEnum):
    """How containers get the vendor's cards."""

    RUNTIME = "runtime"
    """The container runtime asks about each container by name (NRI)."""
    ALLOCATE = "allocate"
    """Kubelet asks, through a device plugin, where the runtime has no NRI. It does not name the
    container, so the scheduler lets no two pods that ask for as much start on the node at once."""


class DeviceListStrategy(StrEnum):
    """By what a container gets its cards."""

    AUTO = "auto"
    """`envvar` where the runtime asks, `cdi` where kubelet does."""
    ENVVAR = "envvar"
    """The variable that the vendor's runtime reads."""
    VOLUME_MOUNTS = "volume-mounts"
    """Mounts whose names the vendor's runtime reads, where it is configured to."""
    CDI = "cdi"
    """CDI names, which the container runtime looks up in the vendor's specifications."""
    CDI_ANNOTATIONS = "cdi-annotations"
    """The same names in an annotation of the container."""
    NODES = "nodes"
    """Device nodes; the vendor's runtime adds the driver's files and no card."""


class DeviceIdStrategy(StrEnum):
    """By what cards are named."""

    UUID = "uuid"
    INDEX = "index"
    """The driver's number. It may be another card's after a card is lost."""


class DeviceFeature(StrEnum):
    """Devices next to the cards, by which data gets to them."""

    GDRCOPY = "gdrcopy"
    """Copies to and from card memory by the processor."""
    GDS = "gds"
    """GPUDirect Storage."""
    MOFED = "mofed"
    """Network cards that reach card memory (RDMA)."""


class DeliverySettings(Struct, frozen=True, kw_only=True):
    """How the devices of a container with shares get into it, whether the runtime or kubelet
    asks."""

    strategy: DeviceListStrategy = DeviceListStrategy.AUTO
    """`auto`, `envvar`, `volume-mounts`, `cdi`, `cdi-annotations` or `nodes`. A variable that a pod
    sets itself wins over kubelet's, so a card had best come by a CDI name there."""
    ids: DeviceIdStrategy = DeviceIdStrategy.UUID
    """`uuid` or `index`: how the variable, the mounts or the CDI names name a card."""
    nodes: bool = False
    """Whether containers get their device nodes from the agent too: some runtimes and CPU managers
    take away those that only the vendor's runtime added."""
    cdi_prefix: str = "cdi.k8s.io/"
    """How the key of the annotation begins, for `cdi-annotations`."""
    features: tuple[DeviceFeature, ...] = ()
    """Of `gdrcopy`, `gds`, `mofed`: what every container with a share of this vendor gets too."""
    imex_channels: tuple[Annotated[int, Meta(ge=0, le=MOST_CHANNEL)], ...] = ()
    """IMEX channels that every such container gets. All pods that have one may reach each other's
    memory across nodes."""
    imex_required: bool = False
    """Whether a container is refused while a channel's device node is not there."""
    license_folder: str = ""
    """Folder on the node with the license and the validator of a licensed library, which
    are mounted as far as they are there; empty = nowhere."""

    def check(self) -> None:
        """Raises BadSettings."""
        if not _PREFIX.fullmatch(self.cdi_prefix):
            raise BadSettings(
                f"delivery.cdi_prefix: {self.cdi_prefix!r}: write a domain and a slash, such as "
                "cdi.k8s.io/"
            )
        for name, values in (("features", self.features), ("imex_channels", self.imex_channels)):
            _refuse_repeated(name, values)
        if self.imex_required and not self.imex_channels:
            raise BadSettings(
                "delivery.imex_required: true: no channel is asked for: write "
                "delivery.imex_channels, such as 0"
            )
        if self.license_folder and not self.license_folder.startswith("/"):
            raise BadSettings(
                f"delivery.license_folder: {self.license_folder!r}: write a path that begins with /"
            )
        self._check_strategy()

    def _check_strategy(self) -> None:
        match self.strategy:
            case DeviceListStrategy.CDI | DeviceListStrategy.CDI_ANNOTATIONS if self.nodes:
                raise BadSettings(
                    f"delivery.nodes: true: strategy {self.strategy} names devices whose "
                    "specification has the device nodes: write false, or another strategy"
                )
            case DeviceListStrategy.NODES if self.ids is not DeviceIdStrategy.UUID:
                raise BadSettings(
                    f"delivery.ids: {self.ids}: strategy {self.strategy} names no card: write "
                    f"{DeviceIdStrategy.UUID}, or another strategy"
                )
            case _:
                pass

    def chosen(self, delivery: CardDelivery) -> DeviceListStrategy:
        """The strategy; never AUTO. Raises BadSettings where it does not go with `nodes`."""
        if self.strategy is not DeviceListStrategy.AUTO:
            return self.strategy
        if delivery is CardDelivery.RUNTIME:
            return DeviceListStrategy.ENVVAR
        if self.nodes:
            raise BadSettings(
                f"delivery.nodes: true: where kubelet gives the cards, strategy {self.strategy} is "
                f"{DeviceListStrategy.CDI}, whose specification has the device nodes: write "
                f"delivery.strategy, {DeviceListStrategy.NODES} or {DeviceListStrategy.ENVVAR}"
            )
        return DeviceListStrategy.CDI


class ToolkitSettings(Struct, frozen=True, kw_only=True):
    """The vendor's container toolkit, where an operator installs it on the node."""

    file: str = ""
    """File by which an operator's validator says that the toolkit is ready; empty = it is not
    waited for."""
    wait_s: Seconds = 600.0
    """Seconds until an agent that still waits ends, and says why: it is started again, and waits
    again. A driver takes minutes to be compiled."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.file and not self.file.startswith("/"):
            raise BadSettings(f"toolkit.file: {self.file!r}: write a path that begins with /")


def _refuse_repeated(name: str, values: Sequence[object]) -> None:
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise BadSettings(f"delivery.{name}: {twice} comes twice: write it once")
