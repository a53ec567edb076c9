"""The class of a pod: what it is promised of a card.

Its owner writes it in one annotation. Without one, a dialect may read it from the pod's own words,
where its options say so; what is read so never refuses a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Rejected
from tessera_core.dialect_kit.lending_terms import takes_part
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import (
    BEST_EFFORT,
    BURSTABLE,
    CLASS_KEY,
    CLASSES,
    GUARANTEED,
    LENDING_KEY,
)
from tessera_schema.kube import Pod
from tessera_schema.requests import ContainerRequest, Request

Containers = Mapping[int, ContainerRequest]
"""Requests by their containers' positions."""
_FIELD: Final = f"metadata.annotations[{CLASS_KEY}]"


class PodClass(Struct, frozen=True):
    """A pod's class, and what said so."""

    name: str = BURSTABLE
    mapped_from: str = ""
    """What of the pod a dialect read it from; empty = it is written, or nothing is said."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """For the pod's author, where the class is not what it wrote."""
        if not self.mapped_from:
            return ()
        return (
            f"{self.mapped_from}: class {self.name}, no cores are granted, the pod has the card's "
            f"time that others leave; annotate {CLASS_KEY}: {BURSTABLE} to change that",
        )


def class_of(registry: DialectRegistry, pod: Pod, dialects: Iterable[str]) -> PodClass:
    """The class of a pod that speaks these dialects; a word that is none counts as none."""
    said = pod.metadata.annotations.get(CLASS_KEY)
    if said in CLASSES:
        return PodClass(said)
    for name in dialects:
        sign = registry.dialects[name].best_effort(pod)
        if sign:
            return PodClass(BEST_EFFORT, sign)
    return PodClass()


def with_class(
    registry: DialectRegistry,
    pod: Pod,
    class_: PodClass,
    containers: Containers,
) -> tuple[PodClass, Containers] | Rejected:
    """The class that the pod has, and its requests by their containers' positions as that class has
    them; or why it cannot be of the class that its owner wrote."""
    if class_.name == BEST_EFFORT:
        wrong = _no_best_effort(registry, pod, containers)
        if wrong is not None:
            if not class_.mapped_from:
                return wrong
            class_ = PodClass()
    if class_.name == BURSTABLE:
        return class_, containers
    change = _guaranteed if class_.name == GUARANTEED else _best_effort
    return class_, {
        at: replace(container, requests=tuple(map(change, container.requests)))
        for at, container in containers.items()
    }


def _guaranteed(request: Request) -> Request:
    return replace(request, guaranteed=True)


def _best_effort(request: Request) -> Request:
    return replace(request, best_effort=True, cores_percent=0, needs_free_cores=False)


def _no_best_effort(registry: DialectRegistry, pod: Pod, containers: Containers) -> Rejected | None:
    """Why a pod cannot have just what others leave."""
    if not takes_part(pod.metadata.annotations):
        remedy = f"leave {LENDING_KEY} out: such a pod has nothing but what is lent to it"
        return _refused(f"{BEST_EFFORT} with {LENDING_KEY}: false", remedy)
    for request in (r for c in containers.values() for r in c.requests):
        if not registry.vendors[request.vendor].hooked:
            return _refused(
                f"{BEST_EFFORT} on cards of {request.vendor}",
                "leave the annotation out: nothing takes back the time of these cards from a "
                "container that runs",
            )
        if request.exclusive:
            return _refused(
                f"{BEST_EFFORT} with a whole card",
                "ask for a part of a card's memory: on a card of its own nobody leaves anything",
            )
    return None


def _refused(value: str, remedy: str) -> Rejected:
    return Rejected(field=_FIELD, value=value, remedy=remedy)
