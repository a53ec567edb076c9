"""Admission: the manifest as Mthreads' toolkit expects it, and the request in canonical units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import (
    Admitted,
    ContainerRequest,
    Pod,
    Policy,
    Request,
    complete_resources,
)
from tessera_core.dialect_kit.hami_format import field_in, ids_of, policy_of, policy_warnings
from tessera_core.dialects.mthreads.amounts import MthreadsContainerRequest, container_requests
from tessera_core.dialects.mthreads.options import CORES, MEMORY_UNIT, NAME, MthreadsOptions

USE: Final = "mthreads.ai/use-gpuuuid"
NOUSE: Final = "mthreads.ai/nouse-gpuuuid"
SEVERAL: Final = "mthreads.com/request-gpu-num"
CHOICES: Final = frozenset({USE, NOUSE, SEVERAL})
"""Pod annotation: number of cards of the container that asks for several."""


def admit(options: MthreadsOptions, pod: Pod) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run."""
    found = container_requests(options, pod)
    if not found:
        return Admitted(containers=())
    changes = {
        a.container.name: complete_resources(
            a.container,
            dict(zip((options.count, options.memory, options.core), a.written, strict=True)),
        )
        for a in found
    }
    several = [a.count for a in found if a.count > 1]
    return Admitted(
        containers=_requests(options, pod, found),
        changes={name: change for name, change in changes.items() if change is not None},
        annotations={SEVERAL: str(several[-1])} if several else {},
        warnings=tuple(w for a in found for w in _warnings(options, pod, a))
        + policy_warnings(pod.metadata.annotations),
    )


def _requests(
    options: MthreadsOptions, pod: Pod, found: Sequence[MthreadsContainerRequest]
) -> tuple[ContainerRequest, ...]:
    notes = pod.metadata.annotations
    policy = policy_of(
        notes, node=options.node_scheduler_policy, cards=options.gpu_scheduler_policy
    )
    ids, denied = ids_of(notes, USE), ids_of(notes, NOUSE)
    return tuple(
        ContainerRequest(
            container=a.container.name,
            position=a.position,
            role=a.role,
            requests=(_request(a, policy, ids, denied),),
        )
        for a in found
    )


def _request(
    a: MthreadsContainerRequest, policy: Policy, ids: tuple[str, ...], denied: tuple[str, ...]
) -> Request:
    """Whole cards are asked as 100 percent of whatever card: the 48 GiB of the manifest would
    keep them off every smaller card."""
    return Request(
        vendor=NAME,
        dialect=NAME,
        count=a.count,
        memory_bytes=a.memory * MEMORY_UNIT,
        memory_percent=100 if a.whole else 0,
        cores_percent=100 if a.whole else a.cores * 100 / CORES,
        exclusive=a.whole,
        owns_whole_cores=True,
        together=a.count == 1,
        ids=ids,
        ids_denied=denied,
        policy=policy,
    )


def _warnings(options: MthreadsOptions, pod: Pod, a: MthreadsContainerRequest) -> list[str]:
    """Amounts that a container with whole cards gave in vain."""
    given = zip((options.memory, options.core), a.given, a.written[1:], strict=True)
    return [
        f"{field_in(pod, a.position, name)}: {had} becomes {now}: "
        + (f"{a.count} cards are whole cards" if a.count > 1
           else f"without {options.memory} a container gets a whole card")
        for name, had, now in given
        if a.whole and had is not None and had != now
    ]  # fmt: skip
