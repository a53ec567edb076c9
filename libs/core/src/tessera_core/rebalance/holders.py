"""Who holds what, as hints and lending see it: the grant, and what its pod says about lending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.rebalance.smooth import Key
from tessera_core.registry import Registry
from tessera_schema.grants import Grant
from tessera_schema.keys import LENDING_KEY
from tessera_schema.kube import Container, Pod

PRIORITY_ENV: Final = "CUDA_TASK_PRIORITY"
POLICY_ENV: Final = "GPU_CORE_UTILIZATION_POLICY"
"""Variables of HAMi's that count whatever dialect the pod speaks, as they do in the hook."""


class Held(Struct, frozen=True, kw_only=True):
    """What one container was granted of one card."""

    memory_bytes: int = 0
    cores_percent: float = 0
    """0 = no promise, and no limit."""
    lends: bool = True
    """False = its pod takes no part in lending."""
    most_cores_percent: float | None = None
    """How far its author lets it grow into idle cores; None = he said nothing."""
    priority: int | None = None
    """The smaller goes before the larger; None = it goes before nobody, and nobody before it."""


Holders = Mapping[Key, Held]


def holders_of(grant: Grant, pod: Pod, registry: Registry) -> dict[Key, Held]:
    """What each container of the pod was granted of each card."""
    containers = {c.name: c for c in pod.all_containers}
    lends = pod.metadata.annotations.get(LENDING_KEY, "").strip().lower() != "false"
    held: dict[Key, Held] = {}
    for share in grant.shares:
        container = containers.get(share.container, Container(name=share.container))
        env = {each.name: each.value for each in container.env}
        dialect = registry.readers.get(share.dialect)
        most = dialect.ceiling(pod) if dialect is not None else None
        if env.get(POLICY_ENV, "").lower() == "force":
            most = 0.0
        held[grant.uid, share.container, share.card] = Held(
            memory_bytes=share.memory_bytes, cores_percent=share.cores_percent, lends=lends,
            most_cores_percent=most, priority=_priority(env.get(PRIORITY_ENV, "")),
        )  # fmt: skip
    return held


def _priority(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
