"""Admission: the manifest as Iluvatar's plugin expects it, and the request in canonical units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from tessera_core.dialect_kit import (
    Admitted,
    Container,
    ContainerChange,
    ContainerRequest,
    Pod,
    Policy,
    Request,
    complete_resources,
)
from tessera_core.dialect_kit.hami_format import field_in, ids_of, policy_of, policy_warnings
from tessera_core.dialects.iluvatar.amounts import (
    IluvatarContainerRequest,
    container_requests,
    in_vain,
)
from tessera_core.dialects.iluvatar.options import (
    CORES,
    LEGACY_WORD,
    MEMORY_UNIT,
    NAME,
    Form,
    IluvatarOptions,
)

CONTAINER_NAME: Final = "SOL_CONTINER_NAME"
"""Variable by which the vendor's software knows its container; the spelling is the vendor's."""


def admit(options: IluvatarOptions, forms: Sequence[Form], pod: Pod) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run."""
    found = container_requests(forms, pod)
    unused = tuple(in_vain(forms, pod))
    if not found:
        return Admitted(containers=(), warnings=unused)
    policy = policy_of(
        pod.metadata.annotations,
        node=options.node_scheduler_policy,
        cards=options.gpu_scheduler_policy,
    )
    containers, changes = [], {}
    for _, group in groupby(found, key=lambda a: a.position):
        asks = list(group)
        containers.append(
            ContainerRequest(
                container=asks[0].container.name, position=asks[0].position, role=asks[0].role,
                requests=tuple(_request(pod, a, policy) for a in asks),
            )
        )  # fmt: skip
        change = _change(asks[0].container, asks)
        if change is not None:
            changes[asks[0].container.name] = change
    return Admitted(
        containers=tuple(containers),
        changes=changes,
        warnings=(
            *(w for a in found for w in _warnings(pod, a)),
            *unused,
            *policy_warnings(pod.metadata.annotations),
        ),
    )


def _request(pod: Pod, a: IluvatarContainerRequest, policy: Policy) -> Request:
    notes = pod.metadata.annotations
    memory = 0 if a.several else (a.memory or 0) * MEMORY_UNIT
    return Request(
        vendor=NAME, dialect=NAME, count=a.count,
        memory_bytes=memory, memory_percent=0 if memory else 100,
        cores_percent=CORES if a.several else min(a.cores or 0, CORES),
        exclusive=a.several, owns_whole_cores=True,
        models=(a.form.model or LEGACY_WORD,), models_denied=a.form.others,
        ids=ids_of(notes, a.form.use), ids_denied=ids_of(notes, a.form.nouse), policy=policy,
    )  # fmt: skip


def _change(
    container: Container, asks: Sequence[IluvatarContainerRequest]
) -> ContainerChange | None:
    amounts: Mapping[str, int | None] = {
        name: amount
        for a in asks
        for name, amount in zip(a.form.resources, (a.count, a.memory, a.written_cores), strict=True)
    }
    env = {CONTAINER_NAME: container.name} if container.name else {}
    return complete_resources(container, amounts, env)


def _warnings(pod: Pod, a: IluvatarContainerRequest) -> list[str]:
    """Amounts that were given in vain."""
    memory = field_in(pod, a.position, a.form.memory)
    cores = field_in(pod, a.position, a.form.core)
    messages = []
    if a.several and a.memory:
        messages.append(f"{memory}: {a.memory} is not used: {a.count} cards are whole cards")
    if a.several and a.cores is not None and a.cores != a.written_cores:
        messages.append(
            f"{cores}: {a.cores} becomes {a.written_cores}: {a.count} cards are whole cards"
        )
    if not a.several and (a.cores or 0) > CORES:
        messages.append(f"{cores}: {a.cores} counts as {CORES}: a card has no more")
    return messages
