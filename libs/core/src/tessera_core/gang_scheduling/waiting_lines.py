"""Who waits in which queue, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.gang_scheduling.queues import Place, SchedulingQueues
from tessera_core.gang_scheduling.turns import in_order
from tessera_core.gang_scheduling.view import WaitingGang
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod


def waiting_lines(
    bundles: Iterable[KnownBundle],
    queues: SchedulingQueues,
    reasons: Mapping[str, str],
    held: Mapping[str, str],
    created: Callable[[Pod], float],
    now: float,
    expected: Mapping[str, float] = {},
) -> dict[Place, list[WaitingGang]]:
    """Queue -> what waits in it, the next one first: gangs in the order of their turns, those that
    gather, then pods of no gang. `reasons` are by gang's id, `held` by uid of a pod whose gate
    stays closed; `created` gives the time of a pod,
    `expected` that at which a gang is expected to start, by its id."""
    waiting = [
        known for known in bundles
        if known.attempt.phase in (*WAITING, GangPhase.GATHERING) and known.bundle.together
    ]  # fmt: skip
    ready = in_order((known for known in waiting if known.attempt.phase in WAITING), queues, now)
    gathering = [known for known in waiting if known.attempt.phase is GangPhase.GATHERING]
    lines: dict[Place, list[WaitingGang]] = {}
    for known in (*ready, *sorted(gathering, key=lambda known: known.attempt.since)):
        attempt = known.attempt
        gathers = attempt.phase is GangPhase.GATHERING
        for members in known.bundle.gangs:
            gang, place = members.gang, queues.place_of(members.gang)
            if place is not None:
                line = lines.setdefault(place, [])
                line.append(
                    WaitingGang(
                        id=gang.id, position=len(line) + 1, namespace=gang.namespace,
                        name=gang.name, reason=reasons.get(gang.id, ""),
                        pods=len(members.waiting) + len(members.barred),
                        waits_since=attempt.since if gathers else attempt.waits_since,
                        expected_start=expected.get(gang.id),
                    )
                )  # fmt: skip
    for place, pod in queues.waiting_pods():
        line, meta = lines.setdefault(place, []), pod.metadata
        namespace = meta.namespace or "default"
        line.append(
            WaitingGang(
                id=f"pod/{namespace}/{meta.name}", position=len(line) + 1, namespace=namespace,
                name=meta.name, reason=held.get(meta.uid, ""), pods=1,
                waits_since=created(pod),
            )
        )  # fmt: skip
    return lines
