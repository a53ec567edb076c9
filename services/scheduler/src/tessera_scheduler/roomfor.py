"""The room that a plan makes for a waiting pod, as the pod bears it.

One that cannot be read, or that is on a pod which asks for no cards, closes nothing and is told in
the log.
"""

from __future__ import annotations

import msgspec

from tessera_core.admission import Admission, admit
from tessera_core.registry import Registry
from tessera_core.reserved import Holding
from tessera_runtime import logs
from tessera_schema.keys import RESERVE_KEY
from tessera_schema.kube import Pod
from tessera_schema.plans import decode_reservation

_log = logs.named("tessera.scheduler.reservations")


def held_for(registry: Registry, pod: Pod) -> Holding | None:
    """What is reserved for a waiting pod; None where nothing is."""
    text = pod.metadata.annotations.get(RESERVE_KEY)
    if text is None:
        return None
    try:
        held = decode_reservation(text)
    except msgspec.DecodeError as e:
        _log.warning("reservation not readable", pod=pod.name, key=RESERVE_KEY, why=str(e))
        return None
    admission = admit(registry, pod)
    if not isinstance(admission, Admission) or not held.node:
        return None
    return Holding(
        uid=pod.metadata.uid, pod=pod.name, node=held.node, until=held.until, plan=held.plan,
        priority=pod.spec.priority or 0,
        vendors=frozenset(r.vendor for c in admission.request.containers for r in c.requests),
    )  # fmt: skip
