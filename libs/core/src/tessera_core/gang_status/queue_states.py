"""Queues as they are published and listed: in numbers, without the names of those that wait."""

from __future__ import annotations

from collections.abc import Iterator

from tessera_core.gang_scheduling.view import QueueView
from tessera_core.gangs.queues import QueueDimension
from tessera_schema.queue_states import QueueAmount, QueueState


def state_of(view: QueueView) -> QueueState:
    """One queue as it stands."""
    pods = [each for each in view.waiting if each.id.startswith("pod/")]
    return QueueState(
        group=view.key.group, kind=view.origin.kind, name=view.key.name, parent=view.parent,
        problem=view.problem, share=view.share.beyond, within=view.share.within,
        weight_lost=round(view.share.lost, 3),
        by="" if view.by is None else str(view.by), amounts=tuple(_amounts(view)),
        waiting_gangs=len(view.waiting) - len(pods),
        waiting_pods=sum(each.pods for each in view.waiting),
        waits_since=min((each.waits_since for each in view.waiting), default=0),
        expected_start=min((e.expected_start for e in view.waiting if e.expected_start), default=0),
    )  # fmt: skip


def _amounts(view: QueueView) -> Iterator[QueueAmount]:
    named = {**view.cap, **view.deserved, **view.guarantee, **view.used}
    for dimension in sorted(named):
        amount = _amount(view, dimension)
        if amount.used or amount.guarantee or amount.deserved or amount.cap is not None:
            yield amount


def _amount(view: QueueView, dimension: QueueDimension) -> QueueAmount:
    return QueueAmount(
        what=dimension.what, vendor=dimension.vendor, used=view.used.get(dimension, 0),
        guarantee=view.guarantee.get(dimension, 0), deserved=view.deserved.get(dimension, 0),
        cap=view.cap.get(dimension),
    )  # fmt: skip
