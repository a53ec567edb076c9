"""How large a pod may be that asks for shares: looked at before anything else of it is.

Every answer about a pod is computed on the loop that also keeps the Lease, so what one answer costs
is bounded here. The bounds are several times what the largest manifests in use have: some dozen
containers, a few hundred variables and mounts, and less than 100 KiB. Pods that are bound already
are counted whatever their size: a holder that is not counted would have its cards given away twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tessera_core.dialect_kit.contract import Rejected
from tessera_schema.kube import Container, Pod

MOST_BYTES: Final = 512 << 10
"""Of a new pod as JSON. Annotations are 256 KiB at most, and as `kubectl apply` keeps a manifest in
one of them, manifests are smaller than that. A pod that is stored grows (defaults, managed fields),
and is not held to this: etcd's own limit, 1.5 MiB, is above it."""
MOST_OBJECTS: Final = 50_000
"""Opening braces in that JSON, which is three times what a pod at all the other bounds has, with
its managed fields: what costs is not long text, but many small parts."""
MOST_CONTAINERS: Final = 128
"""Init containers and containers added for debugging among them. Placing a pod with so many, where
a quota limits its namespace and nothing fits, takes some 40 ms."""
MOST_VOLUMES: Final = 1_000
MOST_MOUNTS: Final = 2_000
"""In all containers together, as the next two."""
MOST_VARIABLES: Final = 2_000
MOST_AMOUNTS: Final = 4_000
"""Resource names in limits and requests."""
MOST_LABELS: Final = 1_000
MOST_ANNOTATIONS: Final = 1_000
MOST_ANNOTATION_BYTES: Final = 200 << 10
"""Keys and values, as the author writes them, and again with the grant and the result keys. The API
server takes 256 KiB with every later update, and checks nothing in a Binding: a pod beyond that
could never get a status again."""


def oversize(pod: Pod) -> Rejected | None:
    """The first bound that the pod is beyond. Costs little, whatever the pod's size. Its bytes are
    looked at before it is decoded: see `too_many_bytes`."""
    return too_many(pod) or _too_long(pod)


def too_many_bytes(size: int) -> Rejected | None:
    """The refusal of a pod of so many bytes of JSON; None where it is small enough to be read."""
    if size <= MOST_BYTES:
        return None
    return Rejected(
        field="object",
        value=f"{-(-size >> 10)} KiB",
        remedy=f"a pod that asks for shares has {MOST_BYTES >> 10} KiB at most; move what is large "
        "to a ConfigMap, or start several pods",
    )


def too_many_objects(count: int) -> Rejected | None:
    """The refusal of so many braces in a pod's JSON; None where they are few enough."""
    if count <= MOST_OBJECTS:
        return None
    return _beyond("object", count, MOST_OBJECTS, "parts in braces")


def too_many_annotations(count: int) -> Rejected | None:
    """The refusal of so many annotations; None where they are few enough."""
    if count <= MOST_ANNOTATIONS:
        return None
    return _beyond("metadata.annotations", count, MOST_ANNOTATIONS, "annotations")


def too_many_containers(pod: Pod) -> Rejected | None:
    """The refusal of so many containers; None where they are few enough."""
    spec = pod.spec
    count = len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)
    if count <= MOST_CONTAINERS:
        return None
    return _beyond("spec.containers", count, MOST_CONTAINERS, "containers of all kinds")


def too_many(pod: Pod) -> Rejected | None:
    """The first list of the pod that is too long."""
    wrong = too_many_containers(pod)
    if wrong is not None:
        return wrong
    meta, spec = pod.metadata, pod.spec
    for field, count, most, what in (
        ("spec.volumes", len(spec.volumes), MOST_VOLUMES, "volumes"),
        ("metadata.labels", len(meta.labels), MOST_LABELS, "labels"),
    ):
        if count > most:
            return _beyond(field, count, most, what)
    each = [container for some in _lists(pod) for container in some]
    for field, counted, most, what in _OF_CONTAINERS:
        count = sum(map(counted, each))
        if count > most:
            return _beyond(f"spec.containers[*].{field}", count, most, what)
    return too_many_annotations(len(meta.annotations))


def _lists(pod: Pod) -> tuple[tuple[Container, ...], ...]:
    spec = pod.spec
    return spec.init_containers, spec.containers, spec.ephemeral_containers


def _amounts(container: Container) -> int:
    return len(container.resources.limits) + len(container.resources.requests)


_OF_CONTAINERS: Final[tuple[tuple[str, Callable[[Container], int], int, str], ...]] = (
    ("volumeMounts", lambda c: len(c.volume_mounts), MOST_MOUNTS, "volume mounts"),
    ("env", lambda c: len(c.env), MOST_VARIABLES, "variables"),
    ("resources", _amounts, MOST_AMOUNTS, "amounts of resources"),
)


def _too_long(pod: Pod) -> Rejected | None:
    size = _bytes_of(pod.metadata.annotations)
    if size <= MOST_ANNOTATION_BYTES:
        return None
    return Rejected(
        field="metadata.annotations",
        value=f"{-(-size >> 10)} KiB",
        remedy=f"the grant needs room there; keep them within {MOST_ANNOTATION_BYTES >> 10} KiB, "
        "and larger data in a ConfigMap",
    )


def _bytes_of(notes: Mapping[str, str]) -> int:
    return sum(len(k.encode()) + len(v.encode()) for k, v in notes.items())


def _beyond(field: str, count: int, most: int, what: str) -> Rejected:
    return Rejected(
        field=field, value=str(count),
        remedy=f"a pod that asks for shares has {most} {what} at most; use fewer, or start several "
        "pods",
    )  # fmt: skip
