"""What pods request of processor and memory, and what nodes have for them.

Nodes of which nothing is known have no amounts, and what is not readable counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from tessera_core.kube.pod_requests import pod_requests
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_schema.kube import Node, Pod, Quantity

_CPU: Final = "cpu"
_MEMORY: Final = "memory"


class Host(NamedTuple):
    """What a pod requests of its host, or what a host has for pods."""

    cpu_milli: int = 0
    memory_bytes: int = 0


NOTHING: Final = Host()


def of_pod(pod: Pod) -> Host:
    """What the pod requests, by Kubernetes' rule."""
    spec = pod.spec
    try:
        if spec.init_containers or spec.overhead or spec.resources.requests:
            amounts = pod_requests(pod)
            return _shared(amounts.get(_CPU, 0), amounts.get(_MEMORY, 0))
        cpu = memory = 0
        for container in spec.containers:
            limits, requests = container.resources.limits, container.resources.requests
            cpu += _milli(str(requests.get(_CPU, limits.get(_CPU, 0))))
            memory += _bytes(str(requests.get(_MEMORY, limits.get(_MEMORY, 0))))
    except BadQuantity:
        return NOTHING
    return _shared(cpu, memory)


def of_node(node: Node) -> Host | None:
    """What the node has for pods; None where it does not say."""
    amounts: Mapping[str, Quantity] = node.status.allocatable or node.status.capacity
    try:
        cpu, memory = quantity_milli(amounts.get(_CPU, 0)), quantity_value(amounts.get(_MEMORY, 0))
    except BadQuantity:
        return None
    return Host(cpu, memory) if cpu > 0 and memory > 0 else None


@lru_cache(4096)
def _milli(quantity: str) -> int:
    return max(quantity_milli(quantity), 0)


@lru_cache(4096)
def _bytes(quantity: str) -> int:
    return max(quantity_value(quantity), 0)


@lru_cache(4096)
def _shared(cpu_milli: int, memory_bytes: int) -> Host:
    """One object for equal amounts: tens of thousands of pods ask the same."""
    return Host(cpu_milli, memory_bytes)
