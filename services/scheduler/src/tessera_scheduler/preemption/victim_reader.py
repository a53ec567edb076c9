"""What is kept of running pods that hold cards, in case others need these: as little as serves.

Of tens of thousands of pods most have labels and annotations in common with others, so equal ones
are kept once. Pods that name a gang are kept too, without cards as well: they go with their gang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from tessera_core.gangs.group_names import named_group
from tessera_core.kube.host_requests import Host
from tessera_core.kube.owner_references import controller_of
from tessera_core.preemption.potential_victims import VICTIM_ANNOTATIONS, PotentialVictim
from tessera_runtime.kube.timestamps import parse_time
from tessera_schema.annotation_keys import CHECKPOINTED_KEY
from tessera_schema.grants import Grant
from tessera_schema.kube import Container, ObjectMeta, Pod, PodSpec, Resources

_MOST_SHARED: Final = 4096
_NOTHING: Final[dict[str, Any]] = {}
"""Not one for each pod."""
_GRACE_S: Final = 30
"""Kubernetes' own default."""


class VictimReader:
    """Reads pods as potential victims."""

    def __init__(self, known: Callable[[str], PotentialVictim | None]) -> None:
        """`known` gives what was kept of a pod (uid): that is used again where nothing has changed,
        so that a second list takes no memory."""
        self._known = known
        self._shared: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def read(self, pod: Pod, grant: Grant | None, host: Host) -> PotentialVictim | None:
        """What is kept of a bound pod that requests so much of its node; None where it never has to
        go."""
        grouped = named_group(pod) is not None
        if not grouped and grant is None:
            return None
        meta, spec = pod.metadata, pod.spec
        owner = controller_of(meta.owner_references)
        annotations, grace_s = meta.annotations, spec.termination_grace_period_seconds
        if not grouped:
            annotations = {k: annotations[k] for k in VICTIM_ANNOTATIONS if k in annotations}
        kept = Pod(
            metadata=ObjectMeta(
                name=meta.name, namespace=intern(meta.namespace), uid=meta.uid,
                deletion_timestamp=meta.deletion_timestamp, labels=self._share(meta.labels),
                annotations=self._share(annotations),
            ),
            spec=PodSpec(
                containers=_requesting(host), node_name=intern(spec.node_name),
                priority=spec.priority, scheduling_group=spec.scheduling_group,
                node_selector=_NOTHING, overhead=_NOTHING,
            ),
        )  # fmt: skip
        made = PotentialVictim(
            pod=kept, owner=intern(owner.uid) if owner else "",
            owner_kind=intern(owner.kind) if owner else "",
            since=parse_time(pod.status.start_time) or parse_time(meta.creation_timestamp) or 0,
            grace_s=_GRACE_S if grace_s is None else grace_s,
            checkpointed_at=parse_time(meta.annotations.get(CHECKPOINTED_KEY)),
        )  # fmt: skip
        known = self._known(meta.uid)
        return known if known == made else made

    def _share(self, texts: Mapping[str, str]) -> dict[str, str]:
        key = tuple(sorted(texts.items())) if texts else ()
        if len(self._shared) >= _MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(key, dict(texts))


@lru_cache(_MOST_SHARED)
def _requesting(host: Host) -> tuple[Container, ...]:
    """Containers of a pod that requests so much of its node."""
    asked: dict[str, str | int | float] = {
        "cpu": f"{host.cpu_milli}m", "memory": str(host.memory_bytes),
    }  # fmt: skip
    return (Container(name="c", resources=Resources(requests=asked)),)
