"""Evictions: the API server keeps disruption budgets, and a pod's uid is a precondition."""

from __future__ import annotations

from typing import Final

import msgspec

from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.binding import PodKey
from tessera_schema.plans import PlanSpec

_encode: Final = msgspec.json.Encoder().encode


async def create_eviction(kube: Kube, pod: PodKey, *, dry_run: bool = False) -> None:
    """Evict the pod; with `dry_run` the API server says what it would answer, and does nothing.

    Raises as `Kube.call` does: ApiBusy while a disruption budget does not let it go, ApiNotFound
    and ApiConflict where it is gone or is another pod by that name.
    """
    options = {"preconditions": {"uid": pod.uid}, **({"dryRun": ["All"]} if dry_run else {})}
    body = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace}, "deleteOptions": options,
    }  # fmt: skip
    query = {"dryRun": "All"} if dry_run else {}
    path = paths.pod(pod.namespace, pod.name, "eviction")
    await kube.call(Verb.POST, path, query=query, body=_encode(body))


def pods_left(spec: PlanSpec) -> str:
    """That all pods of a plan have left, in words."""
    count = len(spec.steps)
    return "1 pod has left" if count == 1 else f"{count} pods have left"
