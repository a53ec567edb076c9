"""Running pods of a node whose plugin lists replicas under the name of whole cards: their
`nvidia.com/gpu` means replicas, whatever else they say.

A pod by itself does not show it, so plans read such pods next to their node. NVIDIA's plugin writes
on no pod which card it gave: the pod is counted by what it requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tessera_core.dialect_kit import GRANT_KEY, Container, Node, Pod, Quantity
from tessera_core.dialects.replicas.inventory import replicas_of
from tessera_core.dialects.replicas.names import SHARING, STRATEGY, ReplicasOptions


def as_replicas(options: ReplicasOptions, node: Node, pods: Sequence[Pod]) -> Sequence[Pod]:
    """The node's pods, those that got replicas under the name of replicas."""
    labels, capacity = node.metadata.labels, node.status.capacity
    shared = labels.get(STRATEGY) in SHARING and replicas_of(node) > 1
    if not shared or options.whole not in capacity or options.shared in capacity:
        return pods
    return [_renamed(options, pod) if _is_plain(options, pod) else pod for pod in pods]


def _is_plain(options: ReplicasOptions, pod: Pod) -> bool:
    """Whether the pod names whole cards and, below that domain, nothing else."""
    if GRANT_KEY in pod.metadata.annotations:
        return False
    domain = f"{options.whole.partition('/')[0]}/"
    names = {
        name
        for container in pod.all_containers
        for name in (*container.resources.limits, *container.resources.requests)
        if name.startswith(domain)
    }
    return names == {options.whole}


def _renamed(options: ReplicasOptions, pod: Pod) -> Pod:
    def amounts(written: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {options.shared if n == options.whole else n: q for n, q in written.items()}

    def container(c: Container) -> Container:
        limits, requests = amounts(c.resources.limits), amounts(c.resources.requests)
        return replace(c, resources=replace(c.resources, limits=limits, requests=requests))

    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(map(container, spec.containers)),
            init_containers=tuple(map(container, spec.init_containers)),
        ),
    )
