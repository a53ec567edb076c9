"""Admission of pods that come by the hundred: the answer to equal ones is remembered.

Pods are equal here when they differ in nothing that a dialect reads: their names, uids and traces,
the node they are on, their status and their volumes may be others. What volumes would defeat is
therefore looked at each time, as their number is. Only answers are remembered, not refusals: those
name the pod's own fields and are few. A user who may create pods, or only tries to, chooses what is
remembered, so it is bounded by bytes, and nothing is kept of a manifest but its digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit, strip_results
from tessera_core.admission.allowances import NOTHING, Allowed
from tessera_core.admission.isolation import isolation_breach, mounts_may_breach
from tessera_core.admission.pod_size import too_many
from tessera_core.bounded_cache import Cache
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.kube import Container, Pod

MOST_SHAPE: Final = 16 << 10
"""Bytes of what admission reads of a pod that is remembered. Pods that come by the hundred have
less than one kilobyte; larger ones are admitted each time."""
MOST_SHAPES: Final = 1 << 20
"""The same of all that are remembered: some thousand of them. Their answers take up to thirty times
as much memory, where each container is a few letters that ask for a card."""

_encode = msgspec.json.Encoder().encode


class _Known(NamedTuple):
    answer: AdmittedPod | None


class AdmissionCache:
    """`admission.admit` for the pods of one cluster."""

    def __init__(self, registry: DialectRegistry) -> None:
        """Remembers nothing yet. Another registry, another one of these."""
        self._registry = registry
        self._known = Cache[_Known](MOST_SHAPES)

    @property
    def size(self) -> tuple[int, int]:
        """How many answers are remembered, and the bytes of their shapes."""
        return len(self._known), self._known.bytes

    def admit(self, pod: Pod, allowed: Allowed = NOTHING) -> AdmittedPod | Rejected | None:
        """What `admission.admit` says of the pod."""
        shape, has_more = _shape(pod, allowed)
        if len(shape) > MOST_SHAPE:
            return admit(self._registry, pod, allowed=allowed)
        key = blake2b(shape, digest_size=16).hexdigest()
        found = self._known.get(key)
        if found is None:
            return self._learn(key, len(shape), pod, allowed)
        known = found.answer
        if known is None:
            return None
        meta = pod.metadata
        wrong = self._checked(pod, known, allowed) if has_more else None
        return wrong or replace(known, request=replace(known.request, name=meta.name, uid=meta.uid))

    def _checked(self, pod: Pod, known: AdmittedPod, allowed: Allowed) -> Rejected | None:
        wrong = too_many(pod)
        if wrong is not None or not known.request.containers or not mounts_may_breach(pod):
            return wrong
        return isolation_breach(pod, known.request, allowed)

    def _learn(
        self, key: str, size: int, pod: Pod, allowed: Allowed
    ) -> AdmittedPod | Rejected | None:
        answer = admit(self._registry, pod, allowed=allowed)
        if isinstance(answer, Rejected) or strip_results(self._registry, pod)[1]:
            return answer
        self._known.keep(key, _Known(answer), size)
        return answer


def _shape(pod: Pod, allowed: Allowed) -> tuple[bytes, bool]:
    """Everything that admission may read, but for what `AdmissionCache` looks at itself, as JSON;
    and whether the pod has any of that: volumes, mounts, a node, containers for debugging."""
    meta, spec = pod.metadata, pod.spec
    notes = {k: v for k, v in meta.annotations.items() if k != TRACE_KEY}
    containers, inits = _unmounted(spec.containers), _unmounted(spec.init_containers)
    has_more = bool(
        spec.volumes or spec.node_name or spec.ephemeral_containers
        or containers is not spec.containers or inits is not spec.init_containers
    )  # fmt: skip
    if has_more:
        spec = replace(
            spec, node_name="", volumes=(), ephemeral_containers=(), containers=containers,
            init_containers=inits,
        )  # fmt: skip
    return _encode((meta.namespace, meta.labels, notes, spec, sorted(allowed))), has_more


def _unmounted(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    """The containers without their mounts; the same tuple where they have none."""
    for container in containers:
        if container.volume_mounts:
            return tuple(replace(c, volume_mounts=()) for c in containers)
    return containers
