"""What pods request of nodes, by Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tessera_core.kube.containers import roles
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_schema.kube import Pod, Quantity, Resources
from tessera_schema.requests import Role

PODS: Final = "pods"
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", PODS})
_HUGE: Final = "hugepages-"

Amounts = dict[str, int]
"""Resource -> thousandths of a CPU, bytes, or pods."""


def is_counted(name: str, managed: Container[str]) -> bool:
    """True for what kubelet accounts for, and for extended resources that are not `ours`."""
    return name in _NATIVE or (must_be_listed(name) and name not in managed)


def must_be_listed(name: str) -> bool:
    """True for resources of which a node that does not list them has none."""
    return name.startswith(_HUGE) or "/" in name


def pod_requests(pod: Pod, managed: Container[str] = frozenset()) -> Amounts:
    """What the pod requests of a node, by Kubernetes' rule. Raises BadQuantity naming the field.

    App containers and sidecars run together; an init container runs together with the sidecars
    started before it; the larger counts, unless the pod as a whole requests another amount; plus
    the overhead of the runtime class, plus one pod. A limit without a request is a request.
    """
    running: Amounts = {}
    sidecars: Amounts = {}
    highest: Amounts = {}
    for position, container, role in roles(pod):
        resources = container.resources
        field = f"container {container.name or position}: resources"
        own = _amounts(resources, field, managed)
        if role is Role.INIT:
            highest = _larger(highest, _plus(own, sidecars))
            continue
        running = _plus(running, own)
        if role is Role.SIDECAR:
            sidecars = _plus(sidecars, own)
    whole_pod = _amounts(pod.spec.resources, "spec.resources", managed)
    overhead = _amounts(Resources(requests=pod.spec.overhead), "spec.overhead", managed)
    return {**_plus({**_larger(running, highest), **whole_pod}, overhead), PODS: 1}


def _amounts(resources: Resources, field: str, managed: Container[str]) -> Amounts:
    found: Amounts = {}
    for name, quantity in {**resources.limits, **resources.requests}.items():
        if is_counted(name, managed) and name != PODS:
            try:
                found[name] = read_amount(name, quantity)
            except BadQuantity as e:
                raise BadQuantity(f"{field}[{name}]: {e}") from e
    return found


def read_amount(name: str, quantity: Quantity) -> int:
    """An amount as it is counted. Raises BadQuantity."""
    amount = quantity_milli(quantity) if name == "cpu" else quantity_value(quantity)
    if amount < 0:
        raise BadQuantity(f"{quantity} is negative: write 0 or more")
    return amount


def _plus(a: Amounts, b: Amounts) -> Amounts:
    return {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *(n for n in b if n not in a))}


def _larger(a: Amounts, b: Amounts) -> Amounts:
    return {
        name: max(a.get(name, 0), b.get(name, 0)) for name in (*a, *(n for n in b if n not in a))
    }
