"""Pods that are left alone: those of other schedulers, those that opt out, those of namespaces that
the cluster needs to start. They may ask as they like: Tessera gives them no share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.admission.admit import claims_on
from tessera_core.admission.pod_patch import DEFAULT_SCHEDULER
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import SCHEDULER
from tessera_schema.kube import Pod

LEFT_OUT: Final = ("kube-system",)
"""Namespaces for whose pods nobody calls the webhook, unless its settings say otherwise: what the
cluster needs to start must not wait for us."""
_LEFT: Final = "left alone: Tessera gives this pod no share"


class ManagedPods(Struct, frozen=True, kw_only=True):
    """Which pods are Tessera's."""

    schedulers: frozenset[str]
    """The names that Tessera's kube-scheduler serves."""
    opt_outs: tuple[tuple[str, str], ...] = ()
    """Label and value by which a pod, or its namespace, asks to be left alone."""
    take_default: bool = True
    """Whether pods of the default scheduler that ask for shares become Tessera's."""
    left_out: tuple[str, ...] = ()
    """Namespaces of which nobody comes here that does not name one of `schedulers`; for those who
    are asked about every pod, as the webhook is not."""

    @property
    def places(self) -> frozenset[str]:
        """What pods that are Tessera's may have as their scheduler's name when they are created."""
        default = (DEFAULT_SCHEDULER,) if self.take_default else ()
        return frozenset(("", *self.schedulers, *default))

    def takes(self, scheduler: str) -> bool:
        """Whether `scheduler` is one of `places`."""
        default = not scheduler or (scheduler == DEFAULT_SCHEDULER and self.take_default)
        return default or scheduler in self.schedulers


def scope_of(
    registry: DialectRegistry,
    schedulers: Iterable[str] = (),
    *,
    take_default: bool = True,
    left_out: Iterable[str] = (),
) -> ManagedPods:
    """The scope of a cluster; without `schedulers` every name is served that manifests of the
    dialects use."""
    named = tuple(schedulers) or [n for d in registry.dialects.values() for n in d.schedulers]
    return ManagedPods(
        schedulers=frozenset((SCHEDULER, *named)),
        opt_outs=tuple(item for d in registry.readers.values() for item in d.opt_out.items()),
        take_default=take_default,
        left_out=tuple(left_out),
    )


def left_alone(
    registry: DialectRegistry, scope: ManagedPods, pod: Pod, namespace: Mapping[str, str]
) -> str:
    """Why a pod that names one of Tessera's resources is left alone, in words for its author; empty
    when it is. `namespace` are labels of the pod's namespace."""
    why = left_to_others(scope, pod, namespace)
    return why if why and claims_on(registry, pod) else ""


def left_to_others(scope: ManagedPods, pod: Pod, namespace: Mapping[str, str]) -> str:
    """The same of a pod whose containers are not looked at."""
    return (
        opted_out(scope, pod, namespace)
        or _scheduled_elsewhere(scope, pod)
        or _reserved(scope, pod)
    )


def opted_out(scope: ManagedPods, pod: Pod, namespace: Mapping[str, str]) -> str:
    """By which label the pod, or its namespace, asks to be left alone; empty for none."""
    for label, value in scope.opt_outs:
        if value in (pod.metadata.labels.get(label), namespace.get(label)):
            return f"label {label}={value}: {_LEFT}"
    return ""


def _scheduled_elsewhere(scope: ManagedPods, pod: Pod) -> str:
    named = pod.spec.scheduler_name
    if not scope.takes(named):
        return f"spec.schedulerName: {named}: {_LEFT}; leave it out, or write {SCHEDULER}"
    return ""


def _reserved(scope: ManagedPods, pod: Pod) -> str:
    """A pod there that names one of our schedulers is placed all the same."""
    inside, named = pod.metadata.namespace in scope.left_out, pod.spec.scheduler_name
    if inside and named not in scope.schedulers:
        return f"metadata.namespace: {pod.metadata.namespace}: {_LEFT}; write another namespace"
    return ""
