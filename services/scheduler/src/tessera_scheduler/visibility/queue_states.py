"""Queues as a caller may see them: all in numbers, and the names of what waits in namespaces whose
pods the caller may read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tessera_core.gang_scheduling.view import QueueView, WaitingGang
from tessera_core.gang_status.queue_states import state_of
from tessera_core.gangs.queues import PLAIN_QUOTA
from tessera_runtime.kube.timestamps import format_time
from tessera_scheduler.visibility.names import MayName, without_names
from tessera_schema.endpoints.queue_states import (
    ListedQueue,
    ListedQueues,
    QueueName,
    WaitingInQueue,
)

WAITING_MOST: Final = 200
"""Entries of one queue's waiting list that are listed."""


async def listed_queues(
    views: Sequence[QueueView], namespace: str, may_name: MayName
) -> ListedQueues:
    """The queues, parents before their children. Names of `namespace` are seen to first: of many
    namespaces the API server is asked about some."""
    first = (namespace,) if namespace else ()
    visible = await may_name(dict.fromkeys((*first, *_namespaces(views))))
    found = []
    for view in _in_tree([view for view in views if _is_listed(view, visible)]):
        entries = view.waiting[:WAITING_MOST]
        state = state_of(view)
        found.append(
            ListedQueue(
                metadata=QueueName(name=view.key.name), state=state,
                waiting=tuple(_entry(each, visible) for each in entries),
                more_waiting=len(view.waiting) - len(entries),
            )
        )  # fmt: skip
        await asyncio.sleep(0)
    return ListedQueues(items=tuple(found))


def _namespaces(views: Sequence[QueueView]) -> Iterator[str]:
    for view in views:
        if view.origin == PLAIN_QUOTA:
            yield view.key.name.partition("/")[0]
        yield from (each.namespace for each in view.waiting[:WAITING_MOST])


def _is_listed(view: QueueView, visible: Collection[str]) -> bool:
    """A plain ElasticQuota is an object of a namespace, and named by it; other queues are of the
    whole cluster."""
    return view.origin != PLAIN_QUOTA or view.key.name.partition("/")[0] in visible


def _in_tree(views: Sequence[QueueView]) -> Iterator[QueueView]:
    """Each queue behind its parent; those of a circle, and of a parent that is not there, last."""
    left = {view.key: view for view in views}

    def below(group: str, parent: str) -> Iterator[QueueView]:
        for view in views:
            if view.key.group == group and view.parent == parent and view.key in left:
                del left[view.key]
                yield view
                yield from below(group, view.key.name)

    for group in dict.fromkeys(view.key.group for view in views):
        yield from below(group, "")
    yield from list(left.values())


def _entry(each: WaitingGang, visible: Collection[str]) -> WaitingInQueue:
    named = each.namespace in visible
    return WaitingInQueue(
        position=each.position, kind="Pod" if each.id.startswith("pod/") else "Gang",
        namespace=each.namespace if named else "", name=each.name if named else "",
        pods=each.pods, reason=without_names(each.reason, visible) if named else "",
        waits_since=format_time(each.waits_since),
        expected_start="" if each.expected_start is None else format_time(each.expected_start),
    )  # fmt: skip
