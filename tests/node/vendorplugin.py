"""Doubles of the device plugins of Iluvatar and Mthreads, as far as kubelet and pods can see.

They register amounts of cores and memory whose ids mean nothing. Kubelet says how many it wants and
not for which pod, so they look for one: of those that are bound here and have not started, the one
that was placed first and has a container that asks for as many. What the scheduler wrote on it says
which cards it gets. Nothing is remembered: two such pods at once are mixed up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from tessera_kubelet.background import open_tasks
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.registration import serve
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.device_plugin.types import AllocateRefused, ContainerAllocation, PluginDevice
from tessera_schema.injections import Mount
from tests.contract.client import Client, Json

FOLDER = "/var/lib/kubelet/device-plugins"
GIVEN_MEMORY = "GIVEN_MEMORY"
"""Variable with the units of memory of the pod that was picked."""


class Make(Struct, frozen=True, kw_only=True):
    """One vendor's way."""

    vendor: str
    picks_by: str
    """Resource by whose amount it picks; of the others it gives nothing."""
    memory: str
    """Resource: units of memory."""
    cards: int
    units: Mapping[str, int]
    """Resource -> how many of it a card has."""
    variable: str
    """Gives the container the names of its cards."""
    numbers: Callable[[Mapping[str, str], int], str]
    """Annotations of a pod and the position of a container -> card numbers, as a list."""
    placed_at: str
    """Annotation: when the pod was placed, in nanoseconds."""
    settles: Mapping[str, str] = {}
    """Annotations that it writes on a pod that it has allocated for."""
    mounts: tuple[Mount, ...] = ()
    """What it gives to every container."""


ILUVATAR = Make(
    vendor="iluvatar", picks_by="iluvatar.ai/vcuda-core", memory="iluvatar.ai/vcuda-memory",
    cards=2, units={"iluvatar.ai/vcuda-core": 100, "iluvatar.ai/vcuda-memory": 64},
    variable="ILUVATAR_COREX_VISIBLE_DEVICES",
    numbers=lambda notes, position: notes.get(f"iluvatar.ai/predicate-gpu-idx-{position}", ""),
    placed_at="iluvatar.ai/predicate-time", settles={"iluvatar.ai/gpu-assigned": "true"},
)  # fmt: skip
MTHREADS = Make(
    vendor="mthreads", picks_by="mthreads.com/sgpu-core", memory="mthreads.com/sgpu-memory",
    cards=2, units={"mthreads.com/sgpu-core": 16, "mthreads.com/sgpu-memory": 96},
    variable="MTHREADS_VISIBLE_DEVICES",
    numbers=lambda notes, _position: notes.get("mthreads.com/gpu-index", ""),
    placed_at="mthreads.com/predicate-time",
)  # fmt: skip


class Place(Struct, frozen=True):
    """Where a plugin works."""

    client: Client
    """The API server, in the plugin's name."""
    node: str
    folder: Path
    """Kubelet's, for device plugins."""
    until: Callable[[Callable[[], Awaitable[Any]], str], Awaitable[Any]]
    """Waits until something holds, described in words."""


class VendorPlugin:
    """What kubelet asks; see `tessera_kubelet.device_plugin.types.DevicePlugin`."""

    def __init__(self, make: Make, place: Place) -> None:
        self.make = make
        self.offers = DeviceLists()
        self.candidates: list[list[str]] = []
        """At each Allocate: the pods among which it had to choose."""
        self.is_wrong = False
        """Whether it gives another card than it should."""
        self._place = place
        for resource, each in make.units.items():
            ids = (f"{make.vendor}-{i}" for i in range(each * make.cards))
            self.offers.put(resource, [PluginDevice(id=name) for name in ids])

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        if resource != self.make.picks_by:
            return ContainerAllocation()
        found = sorted(await self._asking(str(len(ids))), key=lambda found: found[0])
        self.candidates.append([pod["metadata"]["name"] for _, pod, _ in found])
        if not found:
            return AllocateRefused(f"no pod that has not started asks for {len(ids)} {resource}")
        _, pod, position = found[0]
        numbers = self.make.numbers(pod["metadata"]["annotations"], position)
        if self.is_wrong:
            numbers = str((int(numbers) + 1) % self.make.cards)
        await self._settle(pod)
        limits = pod["spec"]["containers"][position]["resources"]["limits"]
        return ContainerAllocation(
            env={self.make.variable: numbers, GIVEN_MEMORY: limits.get(self.make.memory, "0")},
            mounts=self.make.mounts,
        )

    async def pre_start(self, _resource: str, _ids: Sequence[str]) -> AllocateRefused | None:
        return None

    def preferred(
        self, _resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        return tuple(dict.fromkeys((*must_include, *available)))[:size]

    async def _asking(self, amount: str) -> list[tuple[int, Json, int]]:
        """When it was placed, the pod, and which of its containers asks for so much."""
        chosen = f"spec.nodeName={self._place.node},status.phase=Pending"
        pods = (await self._place.client.get("/api/v1/pods", fieldSelector=chosen)).done["items"]
        found = []
        for pod in pods:
            notes = pod["metadata"].get("annotations", {})
            settled = any(notes.get(key) == value for key, value in self.make.settles.items())
            if self.make.placed_at in notes and not settled:
                at = int(notes[self.make.placed_at])
                found += [(at, pod, position) for position in self._positions(pod, amount)]
        return found

    def _positions(self, pod: Json, amount: str) -> Iterator[int]:
        for position, container in enumerate(pod["spec"]["containers"]):
            if container["resources"].get("limits", {}).get(self.make.picks_by) == amount:
                yield position

    async def _settle(self, pod: Json) -> None:
        if self.make.settles:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            patch = {"metadata": {"annotations": dict(self.make.settles)}}
            (await self._place.client.patch(path, patch)).done  # noqa: B018  (checks)


@asynccontextmanager
async def a_vendor_plugin(make: Make, place: Place) -> AsyncGenerator[VendorPlugin]:
    """The plugin until the block ends, once kubelet counts what it has."""
    plugin = VendorPlugin(make, place)
    settings = DevicePluginSettings(prefix=make.vendor)
    async with open_tasks() as tasks:
        tasks.create_task(
            serve(place.folder, plugin.offers, plugin, settings), name=f"plugin of {make.vendor}"
        )

        async def counted() -> bool:
            found = (await place.client.get(f"/api/v1/nodes/{place.node}")).done
            amounts = found["status"].get("allocatable", {})
            return all(amounts.get(n) == str(k * make.cards) for n, k in make.units.items())

        await place.until(counted, f"kubelet counts what {make.vendor} has")
        yield plugin
