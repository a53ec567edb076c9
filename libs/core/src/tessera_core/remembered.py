"""Admission of pods that come by the hundred: what equal ones were told is remembered.

Pods are equal here when they differ in nothing that a dialect reads: their names, uids and traces,
the node they are on, their status and their volumes may be others. What volumes would defeat is
therefore looked at each time. Only answers are remembered, not refusals: those name the pod's own
fields and are few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from tessera_core.admission import Admission, admit, strip_results
from tessera_core.dialect import Rejected
from tessera_core.isolation import defeats
from tessera_core.registry import Registry
from tessera_schema.keys import TRACE_KEY
from tessera_schema.kube import Container, Pod

MAX_SHAPES: Final = 1_000
"""Answers that are kept: of each the manifest's few kilobytes at most, usually less than one."""

_encode = msgspec.json.Encoder().encode


class Admissions:
    """`admission.admit` for the pods of one cluster."""

    def __init__(self, registry: Registry) -> None:
        """Remembers nothing yet. Another registry, another one of these."""
        self._registry = registry
        self._known: dict[bytes, Admission | None] = {}

    def admit(self, pod: Pod) -> Admission | Rejected | None:
        """What `admission.admit` says of the pod."""
        key = _shape(pod)
        if key not in self._known:
            if strip_results(self._registry, pod)[1]:
                return admit(self._registry, pod)
            return self._learn(key, admit(self._registry, pod))
        known = self._known[key]
        if known is None:
            return None
        meta = pod.metadata
        return defeats(pod) or replace(
            known, request=replace(known.request, name=meta.name, uid=meta.uid)
        )

    def _learn(
        self, key: bytes, admission: Admission | Rejected | None
    ) -> Admission | Rejected | None:
        if not isinstance(admission, Rejected):
            if len(self._known) >= MAX_SHAPES:
                del self._known[next(iter(self._known))]
            self._known[key] = admission
        return admission


def _shape(pod: Pod) -> bytes:
    """Everything that admission may read of a pod, but for what `Admissions` looks at itself."""
    meta, spec = pod.metadata, pod.spec
    notes = {k: v for k, v in meta.annotations.items() if k != TRACE_KEY}
    plain = replace(
        spec, node_name="", volumes=(), ephemeral_containers=(),
        containers=_plain(spec.containers), init_containers=_plain(spec.init_containers),
    )  # fmt: skip
    return _encode((meta.namespace, meta.labels, notes, plain))


def _plain(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(replace(c, volume_mounts=()) if c.volume_mounts else c for c in containers)
