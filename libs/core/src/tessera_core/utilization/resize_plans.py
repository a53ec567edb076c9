"""RebalancePlans that resize running pods to what was found to be enough.

A plan changes the pods that run, without a restart; pods that their owners create later ask as
their manifests say, so the manifest is to be changed as well. Nothing is done until somebody
approves the plan (docs/plans.md).
"""

from __future__ import annotations

import hashlib

from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.right_sizes import RightSize
from tessera_schema.cards import MIB
from tessera_schema.plans import PlanKind, PlanSpec, PlanStep, PodOfPlan


def resize_plan(history: UseHistory, size: RightSize) -> tuple[str, PlanSpec] | None:
    """Name and spec of the plan; None where no pod that still holds such a share can be resized."""
    memory = f"{size.change.memory_bytes // MIB}Mi"
    steps = tuple(
        PlanStep(
            pod=PodOfPlan(namespace=pod.namespace, name=pod.name, uid=pod.uid, node=pod.node),
            container=size.container, card=part.card, memory=memory,
        )
        for (namespace, name, container, card), totals in sorted(history.shares.items())
        if history.still_holds(totals) and container == size.container
        and history.owner_of(namespace, name) == (size.namespace, size.owner_kind, size.owner)
        and (pod := history.pods.get((namespace, name))) is not None and pod.uid and pod.node
        for part in pod.shares
        if (part.container, part.card) == (container, card) and part.resizable
        and part.memory_bytes > size.change.memory_bytes
    )  # fmt: skip
    if not steps:
        return None
    named = f"{size.namespace}/{size.owner_kind}/{size.owner}/{size.container}/{memory}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:10]
    reason = (
        f"container {size.container} of {size.owner_kind} {size.namespace}/{size.owner} was "
        f"granted {size.granted_bytes // MIB} MiB of each card and used "
        f"{size.peak_bytes // MIB} at most in {history.span}: {memory} would do"
    )
    return f"right-size-{digest}", PlanSpec(kind=PlanKind.RESIZE, reason=reason, steps=steps)
