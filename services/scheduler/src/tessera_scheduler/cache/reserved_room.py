"""The room that is made for a waiting pod, as the pod carries it.

By a plan: an annotation. One that cannot be read, or that is on a pod which asks for no cards,
closes nothing and is logged. By preemption: kube-scheduler's nomination, which goes first,
as the victims are leaving already.
"""

from __future__ import annotations

import msgspec

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.node_reservations import NodeReservation
from tessera_runtime import logs
from tessera_schema.annotation_keys import RESERVE_KEY
from tessera_schema.kube import Pod
from tessera_schema.plans import Reservation, decode_reservation

_log = logs.named("tessera.scheduler.reservations")
_ALWAYS = float("inf")
"""`NodeReservations` lets none last that long."""


def reservation_of(registry: DialectRegistry, pod: Pod) -> NodeReservation | None:
    """What is reserved for a waiting pod; None where nothing is."""
    nominated = pod.status.nominated_node_name
    held = Reservation(node=nominated, until=_ALWAYS) if nominated else _planned(pod)
    if held is None or not held.node:
        return None
    admission = admit(registry, pod, allowed=EVERYTHING)  # the filter says whether it may run
    if not isinstance(admission, AdmittedPod) or not admission.request.containers:
        return None
    return NodeReservation(
        uid=pod.metadata.uid, pod=pod.name, node=held.node, until=held.until, plan=held.plan,
        nominated=bool(nominated), priority=pod.spec.priority or 0,
        vendors=frozenset(r.vendor for c in admission.request.containers for r in c.requests),
    )  # fmt: skip


def _planned(pod: Pod) -> Reservation | None:
    text = pod.metadata.annotations.get(RESERVE_KEY)
    if text is None:
        return None
    try:
        return decode_reservation(text)
    except msgspec.DecodeError as e:
        _log.warning("reservation not readable", pod=pod.name, key=RESERVE_KEY, why=str(e))
        return None
