"""Amounts of 0 together with other amounts: they ask for nothing, so they say nothing about the
dialect.

A pod with an amount of 0 of one dialect and of 1 of another speaks the dialect of the second alone.
Were the first to count, its dialect would take the pod's other names, remove its own, and leave a
pod that another dialect completes in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_schema.kube import Container, Pod, Quantity

_NOT_ZERO: Final = frozenset("123456789")
"""No amount that begins so is 0. Most do, and reading one takes ten times as long."""


def without_zeros(pod: Pod, group_of: Callable[[str], str]) -> Pod:
    """The pod without resource names that it gives 0 of wherever it writes them, as far as it
    gives more than 0 of another name of the same group.

    `group_of` answers the empty string for names that are nobody's: they stay.
    """
    if not any(_may_be_zero(amount) for amount in _amounts(pod)):
        return pod
    silent, spoken = _names(pod)
    groups = {group_of(name) for name in spoken}
    dropped = {name for name in silent if group_of(name) and group_of(name) in groups}
    if not dropped:
        return pod
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(_without(c, dropped) for c in spec.containers),
            init_containers=tuple(_without(c, dropped) for c in spec.init_containers),
        ),
    )


def _amounts(pod: Pod) -> Iterator[Quantity]:
    for container in pod.all_containers:
        yield from container.resources.limits.values()
        yield from container.resources.requests.values()


def _may_be_zero(amount: Quantity) -> bool:
    return not (isinstance(amount, str) and amount[:1] in _NOT_ZERO)


def _names(pod: Pod) -> tuple[set[str], set[str]]:
    """Names that are always given 0, and the others."""
    silent: set[str] = set()
    spoken: set[str] = set()
    for container in pod.all_containers:
        for amounts in (container.resources.limits, container.resources.requests):
            for name, amount in amounts.items():
                (silent if _zero(amount) else spoken).add(name)
    return silent - spoken, spoken


def _zero(amount: Quantity) -> bool:
    try:
        return quantity_value(amount) == 0
    except BadQuantity:
        return False


def _without(container: Container, dropped: set[str]) -> Container:
    def without_zeros(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {name: amount for name, amount in amounts.items() if name not in dropped}

    amounts = container.resources
    return replace(
        container,
        resources=replace(
            amounts, limits=without_zeros(amounts.limits), requests=without_zeros(amounts.requests)
        ),
    )
