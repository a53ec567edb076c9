"""Whose scheduling gates are opened: nobody's before its gang has cards, and nobody's for ever; and
whether new pods need gates at all.

A gate that is open stays open: a gang that misses its barrier afterwards waits in filter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tessera_core.gang_scheduling.attempt import HOLDING, WAITING, GangAttempt, KnownBundle
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.scratch import MemberSeat
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod

GATHERING_S: Final = 5.0
"""Seconds after which a gang that still lacks pods counts as one that waits."""
GATHERING_PODS: Final = 64
"""Pods of a gang that lacks some from which on it counts as one that waits: kube-scheduler tries
each of them again and again until the last one is there."""


def gates_to_open(bundle: GangBundle, attempt: GangAttempt) -> tuple[Pod, ...]:
    """The members whose gates are to be opened as things stand.

    Members that go one by one: at once. Of a gang that holds cards those that ask for some; those
    without cards once all with cards have arrived, so that they are not started for nothing. Of a
    gang that asks for no cards at all: all of them, once enough exist.
    """
    gated = tuple(member.pod for member in bundle.waiting if is_gated(member.pod))
    if not gated or not bundle.together or attempt.phase is GangPhase.STARTED:
        return gated
    if attempt.phase in HOLDING or attempt.phase is GangPhase.COMMITTED:
        everybody = _with_cards_are_here(attempt) or _in_one_cycle(bundle)
        seats = ((pod, attempt.seats.get(pod.metadata.uid)) for pod in gated)
        return tuple(pod for pod, seat in seats if _opens(seat, everybody=everybody))
    without_cards = attempt.phase in WAITING and not bundle.requests_cards and not bundle.lacks
    return gated if without_cards else ()


def _opens(seat: MemberSeat | None, *, everybody: bool) -> bool:
    return seat is not None and (everybody or seat.grant is not None)


def _with_cards_are_here(attempt: GangAttempt) -> bool:
    if attempt.phase is GangPhase.COMMITTED:
        return True
    return bool(attempt.arrived) and not any(True for _ in attempt.absent())


def _in_one_cycle(bundle: GangBundle) -> bool:
    """kube-scheduler takes all pods of a Kubernetes PodGroup in one cycle: it needs all of them."""
    return any(members.gang.origin is GangOrigin.KUBERNETES for members in bundle.gangs)


def somebody_waits(bundles: Iterable[KnownBundle], now: float) -> bool:
    """Whether a gang waits for more than the next search or the next of its pods.

    Where none does, a new pod is placed as soon as kube-scheduler tries it, or as soon as the rest
    of its gang is there: a gate would cost a write and spare nothing.
    """
    return any(_waits(known.bundle, known.attempt, now) for known in bundles)


def _waits(bundle: GangBundle, attempt: GangAttempt, now: float) -> bool:
    if bundle.refused or attempt.phase is GangPhase.BROKEN:
        return True
    if attempt.phase is GangPhase.QUEUED:
        return bool(attempt.why)
    if attempt.phase is GangPhase.GATHERING:
        return now >= attempt.since + GATHERING_S or len(bundle.waiting) > GATHERING_PODS
    return False
