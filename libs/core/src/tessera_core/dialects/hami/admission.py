"""Admission: the manifest as HAMi leaves it, and the request in canonical units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    Admitted,
    Container,
    ContainerChange,
    ContainerRequest,
    Pod,
    Request,
    complete_resources,
    find_amount,
    invalid_field,
    roles,
)
from tessera_core.dialect_kit.hami_format import (
    annotation_field,
    bool_word,
    boolean_of,
    field_in,
    ids_of,
    policy_of,
    policy_warnings,
    words_of,
)
from tessera_core.dialects.hami.amounts import WHOLE, HamiContainerRequest, container_requests
from tessera_core.dialects.hami.options import NAME, VENDOR, HamiOptions
from tessera_core.dialects.hami.terms import PRIORITY_ENV

USE_TYPE: Final = "nvidia.com/use-gputype"
NOUSE_TYPE: Final = "nvidia.com/nouse-gputype"
USE_ID: Final = "nvidia.com/use-gpuuuid"
NOUSE_ID: Final = "nvidia.com/nouse-gpuuuid"
NUMA_BIND: Final = "nvidia.com/numa-bind"
MODE: Final = "nvidia.com/vgpu-mode"
CHOICES: Final = frozenset({USE_TYPE, NOUSE_TYPE, USE_ID, NOUSE_ID, NUMA_BIND, MODE})
MODES: Final = ("hami-core", "mig", "mps")
"""Modes that HAMi's plugins report; an annotation names them anywhere in its text."""
PLACEABLE: Final = "hami-core"

OPT_OUT_ENV: Final = "CUDA_DISABLE_CONTROL"
VISIBLE_ENV: Final = "NVIDIA_VISIBLE_DEVICES"
_GUARDED: Final = (VISIBLE_ENV, "CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_LIMIT")
"""Variables, by their beginnings, that say what a share is."""


def admit(options: HamiOptions, pod: Pod) -> Admitted:
    """The pod admitted. Raises InvalidField for what can never run."""
    found = container_requests(options, pod)
    asking = [a for a in found if a.count]
    runtime = options.runtime_class_name if asking and not pod.spec.runtime_class_name else ""
    return Admitted(
        containers=_requests(options, pod, asking),
        changes=_changes(options, pod, found),
        runtime_class=runtime,
        warnings=(
            *(w for a in found for w in _container_warnings(options, pod, a)),
            *_pod_warnings(pod, asking),
        ),
    )


def _requests(
    options: HamiOptions, pod: Pod, asking: Sequence[HamiContainerRequest]
) -> tuple[ContainerRequest, ...]:
    if not asking:
        return ()
    notes = pod.metadata.annotations
    use, nouse = _lists(notes, USE_TYPE, NOUSE_TYPE)
    ids, denied = _lists(notes, USE_ID, NOUSE_ID)
    modes = modes_of(notes)
    policy = policy_of(
        notes,
        node=options.node_scheduler_policy,
        cards=options.gpu_scheduler_policy,
        numa_bind=boolean_of(notes, NUMA_BIND),
        topology=True,
    )
    return tuple(
        ContainerRequest(
            container=a.container.name, position=a.position, role=a.role,
            requests=(
                Request(
                    vendor=VENDOR, dialect=NAME, count=a.count,
                    memory_bytes=a.memory_bytes(options), memory_percent=a.memory_percent(options),
                    cores_percent=a.cores_percent(options), owns_whole_cores=True,
                    models=use, models_denied=nouse, modes=modes, ids=ids, ids_denied=denied,
                    policy=policy,
                ),
            ),
        )
        for a in asking
    )  # fmt: skip


def _lists(
    notes: Mapping[str, str], use: str, nouse: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """An allow list and its deny list. Refuses a pair that leaves nothing."""
    allowed, denied = ids_of(notes, use), ids_of(notes, nouse)
    if allowed and {word.lower() for word in allowed} <= {word.lower() for word in denied}:
        raise invalid_field(
            annotation_field(use), notes[use],
            f"{nouse} denies all of it; take them out of one of the two lists",
        )  # fmt: skip
    return allowed, denied


def modes_of(notes: Mapping[str, str]) -> tuple[str, ...]:
    """Operating modes that the pod allows; none = all."""
    text = notes.get(MODE, "")
    named = [mode for mode in MODES if mode in text]
    return tuple(dict.fromkeys((*named, *words_of(notes, MODE))))


def _changes(
    options: HamiOptions, pod: Pod, found: Sequence[HamiContainerRequest]
) -> dict[str, ContainerChange]:
    by_position = {a.position: a for a in found}
    changes = {}
    for position, container, _ in roles(pod):
        a = by_position.get(position)
        change = _hidden(options, container) if a is None else _spelled(options, a)
        if change is not None:
            changes[container.name] = change
    return changes


def _spelled(options: HamiOptions, a: HamiContainerRequest) -> ContainerChange | None:
    """Limits and requests complete. The priority resource beats a variable of the container's
    own, which in turn beats the cluster's core policy."""
    said = {variable.name: variable.value for variable in a.container.env}
    env = {}
    if a.priority is not None and said.get(PRIORITY_ENV) != str(a.priority):
        env[PRIORITY_ENV] = str(a.priority)
    if a.count and options.gpu_core_policy not in ("", "default") and CORE_POLICY_ENV not in said:
        env[CORE_POLICY_ENV] = options.gpu_core_policy
    change = complete_resources(a.container, a.amounts(options))
    if change is None:
        return ContainerChange(env=env) if env else None
    return ContainerChange(limits=change.limits, requests=change.requests, env=env)


def _hidden(options: HamiOptions, container: Container) -> ContainerChange | None:
    said = {variable.name: variable.value for variable in container.env}
    if not options.overwrite_env or said.get(VISIBLE_ENV) == "none":
        return None
    return ContainerChange(env={VISIBLE_ENV: "none"})


def _container_warnings(options: HamiOptions, pod: Pod, a: HamiContainerRequest) -> list[str]:
    def field(name: str) -> str:
        return field_in(pod, a.position, name)

    if (
        not a.count
        and a.priority is not None
        and find_amount(pod, a.position, options.count) is None
    ):
        return [f"{field(options.priority)}: not used: no cards are asked; add {options.count}: 1"]
    if not a.count:
        given = (
            (options.memory, a.memory),
            (options.memory_percentage, a.percentage),
            (options.core, a.cores),
        )
        return [f"{field(n)}: not used: {options.count} asks for 0 cards" for n, v in given if v]
    messages = []
    if a.cores is not None and a.cores > WHOLE:
        messages.append(f"{field(options.core)}: {a.cores} counts as {WHOLE}: a card has no more")
    if a.memory and a.percentage:
        messages.append(f"{field(options.memory_percentage)}: not used: {options.memory} counts")
    return messages + [
        f"container {a.container.name}: env {v.name}={v.value}: not used: cards and limits of a "
        "share are set by the node"
        for v in a.container.env
        if v.name.startswith(_GUARDED)
        or (v.name == OPT_OUT_ENV and bool_word(v.value) is not False)
    ]


def _pod_warnings(pod: Pod, asking: Sequence[HamiContainerRequest]) -> list[str]:
    if not asking:
        return []
    notes = pod.metadata.annotations
    messages = list(policy_warnings(notes, topology=True))
    modes, ids = modes_of(notes), ids_of(notes, USE_ID)
    if modes and all("mig" in mode.lower() for mode in modes):
        messages.append(
            f"{annotation_field(MODE)}: {notes[MODE]}: the pod waits: it asks for a MIG card, and "
            f"cards in MIG mode are left alone; write {PLACEABLE} to share cards in software"
        )
    elif modes and PLACEABLE not in modes:
        messages.append(
            f"{annotation_field(MODE)}: {notes[MODE]}: cards are shared in mode {PLACEABLE} only, "
            f"cards in MIG mode are left alone; write {PLACEABLE} or leave it out"
        )
    most = max(a.count for a in asking)
    if ids and most > len(ids):
        messages.append(
            f"{annotation_field(USE_ID)}: {len(ids)} cards are allowed and {most} asked of one "
            "node; name more cards or ask for fewer"
        )
    return messages
