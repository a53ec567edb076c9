"""What a played kubelet has admitted: chooses ids, asks plugins, remembers who has what.

Unlike kubelet it fails a pod that asks for a resource that no plugin ever registered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tessera_embedded.kubelet.plugin_client import HostedResource
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_kubelet.errors import ContainerRefused, NodeError, NotAdmitted
from tessera_kubelet.pod_resources import PodHolding

Asks = Mapping[str, Mapping[str, int]]
"""By container and resource, how many; containers in the order in which plugins are asked."""


class FakeDeviceManager:
    """The pods of one node. They outlive a kubelet that restarts, as its checkpoint does."""

    def __init__(self, plugin: Callable[[str], HostedResource | None]) -> None:
        """`plugin`: the one that registered a resource last, since kubelet started."""
        self._plugin = plugin
        self._has: dict[tuple[str, str], dict[str, dict[str, tuple[str, ...]]]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def admit(
        self, namespace: str, name: str, asks: Asks
    ) -> Mapping[str, ContainerAllocation]:
        """What each container gets. No other pod is admitted meanwhile. Raises NotAdmitted."""
        given: dict[str, ContainerAllocation] = {}
        async with self._one_at_a_time:
            has = self._has[namespace, name] = {container: {} for container in asks}
            try:
                for container, wants in asks.items():
                    got = []
                    for resource, count in wants.items():
                        ids, allocation = await self._allocate(resource, count)
                        has[container][resource] = ids
                        got.append(allocation)
                    given[container] = merged(got)
            except NodeError as e:
                del self._has[namespace, name]
                raise NotAdmitted(f"Allocate failed due to {e}") from e
        return given

    async def start(self, namespace: str, name: str, container: str) -> None:
        """A container that was admitted is about to start, for the first time or again. Raises
        ContainerRefused."""
        try:
            for resource, ids in self._has[namespace, name][container].items():
                await self._registered(resource).pre_start(ids)
        except NodeError as e:
            raise ContainerRefused(str(e)) from e

    def ended(self, namespace: str, name: str) -> None:
        """The pod is gone, and its ids are free."""
        del self._has[namespace, name]

    def remember(self, holding: PodHolding) -> None:
        """The pod has this, whatever its plugins were asked."""
        self._has[holding.namespace, holding.name] = {
            container: {resource: tuple(sorted(ids)) for resource, ids in has.items()}
            for container, has in holding.containers.items()
        }

    def holdings(self) -> tuple[PodHolding, ...]:
        """Who has what."""
        return tuple(
            PodHolding(
                namespace=namespace,
                name=name,
                containers={
                    container: {resource: frozenset(ids) for resource, ids in has.items()}
                    for container, has in containers.items()
                },
            )
            for (namespace, name), containers in self._has.items()
        )

    async def _allocate(
        self, resource: str, count: int
    ) -> tuple[tuple[str, ...], ContainerAllocation]:
        hosted = self._registered(resource)
        taken = set(self._taken(resource))
        free = [device.id for device in hosted.devices if device.healthy and device.id not in taken]
        if len(free) < count:
            raise NotAdmitted(f"{resource}: {count} were asked for, {len(free)} are free")
        advice = await hosted.preferred(free, (), count)
        ids = _chosen(free, advice, count)
        return ids, await hosted.allocate(ids)

    def _taken(self, resource: str) -> Iterator[str]:
        for pod in self._has.values():
            for has in pod.values():
                yield from has.get(resource, ())

    def _registered(self, resource: str) -> HostedResource:
        hosted = self._plugin(resource)
        if hosted is None:
            raise NotAdmitted(f"{resource}: no plugin is registered")
        return hosted


def merged(given: Iterable[ContainerAllocation]) -> ContainerAllocation:
    """What a container gets for all its resources: of one variable, path or name the first."""
    all_ = list(reversed(list(given)))
    return ContainerAllocation(
        env={key: value for one in all_ for key, value in one.env.items()},
        mounts=tuple({m.destination: m for one in all_ for m in one.mounts}.values()),
        devices=tuple({d.path: d for one in all_ for d in one.devices}.values()),
        annotations={key: value for one in all_ for key, value in one.annotations.items()},
        cdi_devices=tuple(dict.fromkeys(name for one in all_ for name in one.cdi_devices)),
    )


def _chosen(free: Sequence[str], advice: Sequence[str], count: int) -> tuple[str, ...]:
    """What was advised as far as it is free; then the last ones, as no order is promised."""
    advised = [id_ for id_ in advice if id_ in free]
    return tuple(dict.fromkeys([*advised, *reversed(free)]))[:count]
