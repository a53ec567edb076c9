"""From a pod as written to a pod in canonical units: which dialects it speaks, whether it is
valid, what its manifest becomes.

A resource name belongs to one dialect. Names that are lent (the plain count of cards, which HAMi
owns and Koordinator reads too) go to the borrower when it insists on the pod and the pod does not
speak the owner's dialect otherwise; else to the owner.
Two dialects that then ask for one vendor's cards are refused: their rules would contradict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission import pod_groups
from tessera_core.admission.allowances import NOTHING, Allowed
from tessera_core.admission.choice_keys import misspelt_choices
from tessera_core.admission.foreign_resources import foreign_resources
from tessera_core.admission.isolation import isolation_breach
from tessera_core.admission.pod_class import PodClass, class_of, with_class
from tessera_core.admission.pod_size import oversize
from tessera_core.admission.zero_amounts import without_zeros
from tessera_core.dialect_kit.amounts import InvalidField
from tessera_core.dialect_kit.contract import Admitted, Claim, ContainerChange, Dialect, Rejected
from tessera_core.kube import host_requests
from tessera_core.kube.containers import roles
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import (
    CLASS_KEY,
    CLASSES,
    GROUP,
    ORDER_KEY,
    ORDERS,
    OWNER_KEYS,
    TRACE_KEY,
)
from tessera_schema.kube import Container, Pod, Quantity
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, PodRequest
from tessera_schema.verdicts import ContainerAfter


class AdmittedPod(Struct, frozen=True, kw_only=True):
    """A valid pod. Its request has no containers when it asks for nothing after all."""

    request: PodRequest
    dialects: tuple[str, ...]
    containers: Mapping[str, ContainerAfter]
    annotations: Mapping[str, str]
    runtime_class: str
    warnings: tuple[str, ...]


class _Requested(Struct, frozen=True):
    """What is asked for, before it is put together."""

    admitted: Mapping[str, Admitted]
    class_: PodClass
    containers: Mapping[int, ContainerRequest]


def admit(
    registry: DialectRegistry, pod: Pod, *, runs: bool = False, allowed: Allowed = NOTHING
) -> AdmittedPod | Rejected | None:
    """The pod admitted, or why not; None when it names none of our resources.

    What a pod that `runs` asks for is read whatever else is wrong with it, its size included.
    `allowed` are the ways around a share's limits that the pod's namespace may have.
    """
    refusal = None if runs else oversize(pod)
    if refusal is not None:
        return refusal if _names_us(registry, pod) else None
    claims = claims_on(registry, pod)
    if not claims:
        return None
    refusal = None if runs else _two_dialects(registry, claims) or _odd_word(pod)
    if refusal is not None:
        return refusal
    pod, stripped = strip_results(registry, pod)
    asked = _requested(registry, pod, claims, runs=runs)
    if isinstance(asked, Rejected):
        return asked
    admission = _together(pod, asked, claims, stripped)
    asks = bool(admission.request.containers)
    refusal = isolation_breach(pod, admission.request, allowed) if asks and not runs else None
    if refusal is not None:
        return refusal
    messages = () if runs else (
        *foreign_resources(registry, pod), *misspelt_choices(registry, pod, claims),
    )  # fmt: skip
    return replace(admission, warnings=(*admission.warnings, *messages)) if messages else admission


def _names_us(registry: DialectRegistry, pod: Pod) -> bool:
    """Whether the pod asks by a name that a dialect owns, be it for nothing: of a pod that is too
    large to be looked at any closer."""
    names = {name for dialect in registry.dialects.values() for name in dialect.resources}
    keys = {key for dialect in registry.dialects.values() for key in dialect.request_keys}
    return not keys.isdisjoint(pod.metadata.annotations) or any(
        not names.isdisjoint(amounts)
        for container in pod.all_containers
        for amounts in (container.resources.limits, container.resources.requests)
    )


def strip_results(
    registry: DialectRegistry, pod: Pod, *, own_only: bool = False
) -> tuple[Pod, tuple[str, ...]]:
    """The pod without annotations that only a scheduler or an agent may write, and their keys.
    With `own_only` those of other systems stay.

    The trace that admission opened stays: it gives nothing.
    """
    stripped = tuple(
        k
        for k in pod.metadata.annotations
        if is_result(registry, k) and k != TRACE_KEY and (not own_only or k.startswith(f"{GROUP}/"))
    )
    if not stripped:
        return pod, ()
    gone = frozenset(stripped)
    kept = {k: v for k, v in pod.metadata.annotations.items() if k not in gone}
    return replace(pod, metadata=replace(pod.metadata, annotations=kept)), stripped


def is_result(registry: DialectRegistry, key: str) -> bool:
    """Whether only a scheduler or an agent may write the annotation."""
    managed = key in registry.result_keys or key.startswith(registry.result_prefixes)
    return managed and key not in OWNER_KEYS


def claims_on(registry: DialectRegistry, pod: Pod) -> dict[str, Claim]:
    """The dialects that the pod speaks, with the fields in which it does."""

    def vendor_of(name: str) -> str:
        owner = registry.owners.get(name)
        return registry.dialects[owner].vendor if owner else ""

    pod = without_zeros(pod, vendor_of)
    named = {
        name
        for container in pod.all_containers
        for amounts in (container.resources.limits, container.resources.requests)
        for name in amounts
    }
    notes = pod.metadata.annotations.keys()
    speakers = [
        d for d in registry.dialects.values()
        if not named.isdisjoint(d.resources) or not d.request_keys.isdisjoint(notes)
    ]  # fmt: skip
    claims = {d.name: d.claim(pod) for d in speakers}
    taken = {
        name: d.name
        for d in speakers
        for name in d.shared_names & claims[d.name].fields.keys()
        if _borrows(registry, d, claims, name)
    }
    kept = {
        d.name: {
            name: field
            for name, field in claims[d.name].fields.items()
            if taken.get(name, registry.owners.get(name, d.name)) == d.name
        }
        for d in speakers
    }
    return {name: Claim(fields=fields) for name, fields in kept.items() if fields}


def _borrows(
    registry: DialectRegistry, dialect: Dialect, claims: Mapping[str, Claim], name: str
) -> bool:
    """Whether a dialect takes a lent name of the pod: the owner is off, or the dialect insists and
    the pod does not speak the owner's dialect by another name."""
    owner = registry.owners.get(name)
    if owner is None:
        return True
    claim = claims[dialect.name]
    by_own_name = bool(claim.fields.keys() - dialect.shared_names)
    other = claims[owner].fields.keys() - dialect.shared_names if owner in claims else set()
    return claim.insists and (by_own_name or not other)


def _two_dialects(registry: DialectRegistry, claims: Mapping[str, Claim]) -> Rejected | None:
    by_vendor: dict[str, str] = {}
    for name, claim in claims.items():
        other = by_vendor.setdefault(registry.dialects[name].vendor, name)
        if other != name:
            first, second = (
                next(iter(claims[other].fields.values())),
                next(iter(claim.fields.values())),
            )
            return Rejected(
                field=second,
                value=f"{name} beside {first} of {other}",
                remedy="a pod asks for one vendor's cards in one dialect: keep one of the two",
                reason=Reason.TWO_DIALECTS,
            )
    return None


def _odd_word(pod: Pod) -> Rejected | None:
    """An annotation of Tessera's own that says none of the words that it may."""
    for key, words in ((ORDER_KEY, ORDERS), (CLASS_KEY, CLASSES)):
        said = pod.metadata.annotations.get(key)
        if said is not None and said not in words:
            return Rejected(
                field=f"metadata.annotations[{key}]",
                value=said,
                remedy=f"write {_any_of(words)}, or leave it out",
            )
    return None


def _any_of(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _admitted(dialect: Dialect, pod: Pod) -> Admitted | Rejected:
    try:
        return dialect.admit(pod)
    except InvalidField as e:
        return e.rejected


def _requested(
    registry: DialectRegistry, pod: Pod, claims: Mapping[str, Claim], *, runs: bool
) -> _Requested | Rejected:
    """What all of its dialects make of the pod, of its class. A pod that `runs` and cannot be of
    the class that it names is of none."""
    admitted: dict[str, Admitted] = {}
    for name in claims:
        answer = _admitted(registry.dialects[name], pod)
        if isinstance(answer, Rejected):
            return answer
        admitted[name] = answer
    requests = _together_by_position(admitted)
    classed = with_class(registry, pod, class_of(registry, pod, admitted), requests)
    if not isinstance(classed, Rejected):
        return _Requested(admitted, *classed)
    return _Requested(admitted, PodClass(), requests) if runs else classed


def _together_by_position(admitted: Mapping[str, Admitted]) -> dict[int, ContainerRequest]:
    """Containers' requests, of all dialects together."""
    requests: dict[int, ContainerRequest] = {}
    for answer in admitted.values():
        for container in answer.containers:
            had = requests.get(container.position)
            requests[container.position] = (
                replace(had, requests=had.requests + container.requests) if had else container
            )
    return requests


def _together(
    pod: Pod,
    asked: _Requested,
    claims: Mapping[str, Claim],
    stripped: tuple[str, ...],
) -> AdmittedPod:
    admitted, requests = asked.admitted, asked.containers
    changes: dict[str, list[ContainerChange]] = {}
    for answer in admitted.values():
        for name, change in answer.changes.items():
            changes.setdefault(name, []).append(change)
    named = {name for claim in claims.values() for name in claim.fields}
    warnings = [w for answer in admitted.values() for w in answer.warnings]
    warnings += (*pod_groups.warnings(pod), *asked.class_.warnings) if requests else ()
    if stripped:
        warnings.append(f"annotations {', '.join(stripped)} are written by the scheduler: removed")
    meta, host = pod.metadata, host_requests.of_pod(pod)
    return AdmittedPod(
        request=PodRequest(
            namespace=meta.namespace or "default",
            name=meta.name,
            uid=meta.uid,
            containers=tuple(requests[i] for i in sorted(requests)),
            cpu_milli=host.cpu_milli,
            memory_bytes=host.memory_bytes,
        ),
        dialects=tuple(admitted),
        containers={
            c.name: _after(c, changes.get(c.name, []))
            for _, c, _ in roles(pod)
            if c.name in changes
            or named & (c.resources.limits.keys() | c.resources.requests.keys())
        },
        annotations={k: v for answer in admitted.values() for k, v in answer.annotations.items()},
        runtime_class=next((a.runtime_class for a in admitted.values() if a.runtime_class), ""),
        warnings=tuple(warnings),
    )


def _after(container: Container, changes: list[ContainerChange]) -> ContainerAfter:
    removed = {name for change in changes for name in change.removed}

    def amounts(before: Mapping[str, Quantity], kind: str) -> dict[str, str]:
        after = {k: str(v) for k, v in before.items() if k not in removed}
        for change in changes:
            after |= change.limits if kind == "limits" else change.requests
        return after

    return ContainerAfter(
        limits=amounts(container.resources.limits, "limits"),
        requests=amounts(container.resources.requests, "requests"),
        env={k: v for change in changes for k, v in change.env.items()},
    )
