"""Pods that run, as admission would see them if they were created now: what another system let pass
and Tessera refuses shows before a migration, not when a pod is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from tessera_core.admission.admit import admit
from tessera_core.admission.allowances import allowed_by
from tessera_core.admission.exempt_pods import ManagedPods, left_to_others
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod

_NO_LABELS: Mapping[str, str] = {}


def readmission(
    registry: DialectRegistry,
    scope: ManagedPods,
    pods: Iterable[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    """A warning for each pod that would be refused. `namespaces` are their labels by name; pods
    that are leaving, and those that are not Tessera's, are not looked at."""
    for pod in pods:
        labels = namespaces.get(pod.metadata.namespace or "default", _NO_LABELS)
        if pod.metadata.deletion_timestamp is not None or left_to_others(scope, pod, labels):
            continue
        new = replace(pod, spec=replace(pod.spec, node_name=""))
        answer = admit(registry, new, allowed=allowed_by(labels))
        if isinstance(answer, Rejected):
            yield f"pod {pod.name}: runs, and would be refused if created now: {answer.message}"
