"""Pods of gangs, and what pods ask for."""

from __future__ import annotations

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.admission.cache import AdmissionCache
from tessera_core.gangs.group_names import ADMISSION_GATE
from tessera_core.gangs.queue_usage import amounts_of
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.quota.allowance import minimum_usage
from tessera_core.registry.registry import load
from tessera_schema.kube import Pod, SchedulingGate
from tessera_schema.requests import PodRequest
from tests.core.gangs.setting import a_koord_member, a_member

REGISTRY = load()
_admissions = AdmissionCache(REGISTRY)


def request_of(pod: Pod) -> PodRequest | None:
    """What the pod asks for; None for no cards."""
    admission = _admissions.admit(pod)
    if isinstance(admission, AdmittedPod) and admission.request.containers:
        return admission.request
    return None


def requests_cards(pod: Pod) -> bool:
    """Whether the pod asks for cards."""
    return any(
        not REGISTRY.resources.isdisjoint(container.resources.limits)
        for container in pod.spec.containers
    )


def requested_amounts(pod: Pod) -> QueueAmounts:
    """What the pod counts in its queue."""
    request = request_of(pod)
    return amounts_of(pod, {} if request is None else minimum_usage(request))


def gated(*pods: Pod) -> list[Pod]:
    """The pods as the webhook leaves them."""
    gate = (SchedulingGate(ADMISSION_GATE),)
    return [replace(pod, spec=replace(pod.spec, scheduling_gates=gate)) for pod in pods]


def members(gang: str, *numbers: int) -> list[Pod]:
    return [a_member(f"{gang}{n}", gang) for n in numbers]


def koord_members(gang: str, count: int, least: int, **keys: str) -> list[Pod]:
    return [
        a_koord_member(f"{gang}{n}", gang, min_available=str(least), **keys)
        for n in range(1, count + 1)
    ]
