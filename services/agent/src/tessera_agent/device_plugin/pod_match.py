"""Matches kubelet's request to a container by resource and amount: kubelet says nothing else.

The scheduler never lets two pods that ask for as much start on a node at once where a device plugin
gives the cards; within a pod kubelet asks for one container after the other, init containers first.
So there is one answer, or something went wrong, and none is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from tessera_agent.api.pod_view import ContainerView, PodView
from tessera_agent.device_plugin.allocations import RecordedAllocation
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_kubelet.pod_resources import PodHolding

_NAMED: Final = 4


class RequestingContainer(Struct, frozen=True, kw_only=True):
    """A container that kubelet may be asking for."""

    pod: PodView
    container: ContainerView

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.pod.namespace}/{self.pod.name}, container {self.container.name}"


Named = tuple[str, str, str]
"""Namespace, pod and container."""
Has = Callable[[str, str], bool]
"""Whether a pod's container, by uid and name, was given what it asks for."""


def requesting_containers(
    pods: Iterable[PodView], resource: str, count: int, has: Has
) -> tuple[RequestingContainer, ...]:
    """The containers that come next in their pods and ask for just so much; one of each pod that
    kubelet may be about to admit."""
    found = []
    for pod in pods:
        container = None if pod.ended or pod.admitted else _next(pod, resource, has)
        if container is not None and amount(container, resource) == count:
            found.append(RequestingContainer(pod=pod, container=container))
    return tuple(found)


def restarting(
    pods: Iterable[PodView], resource: str, count: int, holdings: Sequence[PodHolding]
) -> tuple[RequestingContainer, ...]:
    """The containers that ask for just so much, do not run, and are in pods that were admitted
    before, of which kubelet knows nothing: it lost its record, or they were given their cards by
    the runtime then. One of each pod."""
    known = {name for name, has in _having(holdings, resource) if has}
    found = []
    for pod in pods:
        for container in pod.containers:
            name = (pod.namespace, pod.name, container.name)
            if pod.ended or not pod.admitted or container.runs or name in known:
                continue
            if amount(container, resource) == count:
                found.append(RequestingContainer(pod=pod, container=container))
                break
    return tuple(found)


def amount(container: ContainerView, resource: str) -> int:
    """How much of it the container asks for; 0 = nothing, or nothing that makes sense."""
    try:
        return quantity_value(container.limits.get(resource, 0))
    except BadQuantity:
        return 0


def disagreement(
    mine: Sequence[RecordedAllocation],
    holdings: Sequence[PodHolding],
    resource: str,
    ids: Iterable[str],
) -> str:
    """Why kubelet's list of these ids differs from the recorded allocations; empty where it does
    not, or has none of them. The ids of an init container may be another container's of its pod
    later."""
    wanted = frozenset(ids)
    recorded = {(one.namespace, one.pod, one.container) for one in mine}
    pods = {(one.namespace, one.pod) for one in mine}
    for name, has in _having(holdings, resource):
        strange = name not in recorded and (name[:2] not in pods or wanted == has)
        if wanted & has and strange:
            return f"kubelet gave them to {_name(name)}, we to {_names(recorded)}"
    return ""


def listed(holdings: Sequence[PodHolding], resource: str, ids: Iterable[str]) -> tuple[Named, ...]:
    """The containers that have any of these ids by kubelet's list. It has no init containers."""
    wanted = frozenset(ids)
    return tuple(name for name, has in _having(holdings, resource) if wanted & has)


def _having(
    holdings: Iterable[PodHolding], resource: str
) -> Iterator[tuple[Named, frozenset[str]]]:
    for holding in holdings:
        for name, resources in holding.containers.items():
            yield (holding.namespace, holding.name, name), resources.get(resource, frozenset())


def _next(pod: PodView, resource: str, has: Has) -> ContainerView | None:
    """The first container that asks for the resource and was not given it."""
    return next(
        (c for c in pod.containers if amount(c, resource) and not has(pod.uid, c.name)), None
    )


def _names(containers: Iterable[Named]) -> str:
    named = sorted(map(_name, containers))
    return " and ".join(named[:_NAMED]) if named else "nobody"


def _name(container: Named) -> str:
    namespace, pod, name = container
    return f"pod {namespace}/{pod}, container {name}"
