"""What kubelet asks device plugins for: names on a node, amounts of a pod.

A resource that a device plugin registered is allocated by kubelet when it admits the pod, one call
for each container and resource, which says how much and not for which pod
(`tessera_core.scheduling.in_flight`).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod, Quantity

PluginAmounts = frozenset[tuple[str, int]]
"""What kubelet asks device plugins for a pod: resource name and amount, container by container."""

NOT_YET: Final = ("", "Pending")
_TRUE: Final = "true"
_PLAIN: Final = 19
"""Fewer digits than that fit into 64 bits."""


class AllocatedResources(Struct, frozen=True, kw_only=True):
    """Resource names that kubelet has allocated on a node."""

    by_agent: frozenset[str] = frozenset()
    """By Tessera's agent, which remembers for which pod."""
    by_own_plugin: frozenset[str] = frozenset()
    """By a vendor's own plugin, which looks for a pod that has not started."""

    def __bool__(self) -> bool:
        """True where there are any."""
        return bool(self.by_agent or self.by_own_plugin)


NOTHING_ALLOCATED: Final = AllocatedResources()


class StartingPod(Struct, frozen=True, kw_only=True):
    """A bound pod that has not started, as the API server shows it."""

    asks: PluginAmounts
    admitted: bool = False
    """Kubelet has reported it: it asked the plugins before."""


class PluginRequests(Struct, frozen=True):
    """Reads from pods what kubelet asks for them."""

    names: frozenset[str]
    """All that are allocated anywhere, in any dialect."""
    allocated_keys: frozenset[str]
    """Pod annotations that say `true` once a plugin gave the cards (`Dialect.allocated_keys`)."""

    def requests(self, pod: Pod) -> PluginAmounts:
        """What kubelet asks device plugins for the pod's containers: their limits."""
        return frozenset(
            (name, amount)
            for container in pod.all_containers
            for name, quantity in container.resources.limits.items()
            if name in self.names and (amount := _amount(quantity))
        )

    def starting_pod(self, pod: Pod) -> StartingPod | None:
        """A bound pod's; None once it has started, and for one that asks for no card."""
        status = pod.status
        if status.phase not in NOT_YET:
            return None
        asks = self.requests(pod)
        if not asks or self._given(pod) or _one_started(pod):
            return None
        return StartingPod(asks=asks, admitted=bool(status.start_time))

    def _given(self, pod: Pod) -> bool:
        notes = pod.metadata.annotations
        return any(notes.get(key) == _TRUE for key in self.allocated_keys)


def plugin_requests(registry: DialectRegistry) -> PluginRequests:
    """For the dialects of a registry, on or off."""
    readers = registry.readers.values()
    return PluginRequests(
        frozenset(name for d in readers for name in d.plugin_resources),
        frozenset(key for d in readers for key in d.allocated_keys),
    )


def _amount(quantity: Quantity) -> int:
    if isinstance(quantity, str) and len(quantity) < _PLAIN and quantity.isdecimal():
        return int(quantity)  # as the API server writes it
    try:
        return quantity_value(quantity)
    except BadQuantity:
        return 0


def _one_started(pod: Pod) -> bool:
    status = pod.status
    return any(
        container.state.running is not None or container.state.terminated is not None
        for container in (*status.init_container_statuses, *status.container_statuses)
    )
