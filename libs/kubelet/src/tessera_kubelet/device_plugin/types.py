"""What is said between kubelet and a device plugin, without the wire.

Kubelet never says whose container it asks for: only which ids it has chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tessera_schema.injections import Mount


class PluginDevice(Struct, frozen=True):
    """Something that kubelet counts, and gives to one container at a time."""

    id: str
    """Unique in its resource; kubelet documents 63 characters at most."""
    healthy: bool = True
    """Kubelet gives no container an unhealthy one, and counts it in capacity only."""
    numa: tuple[int, ...] = ()
    """NUMA nodes that it is close to; nothing = no preference."""


class DeviceNode(Struct, frozen=True, kw_only=True):
    """A device node of the host, in the container."""

    path: str
    """In the container."""
    source: str
    """On the host."""
    permissions: str = "rw"
    """Of r, w and m."""


class ContainerAllocation(Struct, frozen=True, kw_only=True):
    """What a container gets for the ids of one resource. Where it gets the same variable, path or
    name for another resource too, one of them counts, and kubelet does not say which. What a pod
    sets itself wins over `env`."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = {}
    """Of the container, not of its pod."""
    cdi_devices: tuple[str, ...] = ()
    """Fully qualified names, which the runtime looks up."""


class AllocateRefused(Struct, frozen=True):
    """The container must not be started. An Allocate that is refused ends the pod for good; a
    PreStartContainer that is refused is asked again."""

    why: str


class DevicePlugin(Protocol):
    """What decides for kubelet. A call that raises is answered as failed, with the error's words,
    and is written to the log; one that hangs holds up the pod that it is about, and no other
    call."""

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        """What the container that kubelet chose these ids for is to get. Kubelet waits without an
        end, and keeps the answer for as long as the pod lives."""
        ...

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        """Comes before each start of the container, restarts included. Kubelet waits 30 s."""
        ...

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Which `size` ids kubelet had best choose, `must_include` among them. Advice only."""
        ...


class ResourceRegistered(Struct, frozen=True, kw_only=True):
    """Kubelet has dialled back and asks for this resource from now on."""

    resource: str


class ResourceNotRegistered(Struct, frozen=True, kw_only=True):
    """Kubelet does not ask for this resource; attempts go on."""

    resource: str
    why: str
