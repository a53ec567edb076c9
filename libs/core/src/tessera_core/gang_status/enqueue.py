"""Whether a Volcano PodGroup that is Pending is let into its queue (`Inqueue`).

Amounts are by resource name, as queues and groups write them: cpu in thousandths, all others as
they are. Source: Volcano ed72c7c, the action enqueue and the plugin capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tessera_core.gang_status.groups import StatusGroup
from tessera_core.gangs.queue_objects import QueueObject
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_schema.kube import Quantity

DEFAULT_QUEUE: Final = "default"
_ROOT: Final = "root"
_MOST_LEVELS: Final = 32


def named_amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Resources by name as whole numbers; those that cannot be read are left out."""
    found: dict[str, int] = {}
    for name, quantity in resources.items():
        try:
            read = quantity_milli if name == "cpu" else quantity_value
            found[name] = read(quantity)
        except BadQuantity:
            continue
    return found


class EnqueueRoom:
    """What queues have left for groups that are to be let in. Groups that are let in count from
    then on."""

    def __init__(
        self,
        queues: Iterable[QueueObject],
        allocated: Mapping[str, Mapping[str, int]],
        total: Mapping[str, int],
    ) -> None:
        """`allocated` is what the pods of each queue request that have a node, `total` what the
        nodes have."""
        self._queues = {queue.metadata.name: queue for queue in queues}
        self._total = total
        self._used: dict[str, Counter[str]] = {}
        for name, amounts in allocated.items():
            self._take(name, amounts)

    def hold(self, group: StatusGroup, scheduled: Mapping[str, int]) -> None:
        """The group was let in: what it asks for beyond what its pods have counts."""
        asked = named_amounts(group.spec.min_resources or {})
        left = {name: max(amount - scheduled.get(name, 0), 0) for name, amount in asked.items()}
        self._take(_queue_of(group), left)

    def problem(self, group: StatusGroup) -> str:
        """Why the group is not let in, in words; empty where it is."""
        name = _queue_of(group)
        if self._queues and name not in self._queues and name != DEFAULT_QUEUE:
            return f"queue {name} does not exist: create it, or name another one"
        if group.spec.min_resources is None:
            return ""
        for queue in self._path(name):
            state = queue.status.state or "Open"
            if queue.metadata.name == name and state != "Open":
                return f"queue {name} is {state}: open it, or name another one"
            over = self._over(queue, named_amounts(group.spec.min_resources))
            if over:
                return over
        return ""

    def _over(self, queue: QueueObject, asked: Mapping[str, int]) -> str:
        name = queue.metadata.name
        used: Mapping[str, int] = self._used.get(name, {})
        most = self._most(queue)
        for resource, amount in asked.items():
            have = used.get(resource, 0)
            if amount and resource in most and have + amount > most[resource]:
                return (
                    f"queue {name} allows {_text(resource, most[resource])} {resource}, "
                    f"{_text(resource, have)} used or promised, {_text(resource, amount)} asked"
                )
        return ""

    def _most(self, queue: QueueObject) -> Mapping[str, int]:
        """The queue's capability, at most what the guarantees of its siblings leave."""
        most = dict(self._total)
        parent = _parent(queue)
        for other in self._queues.values():
            if other is not queue and _parent(other) == parent and other.metadata.name != _ROOT:
                for name, amount in named_amounts(other.spec.guarantee.resource).items():
                    if name in most:
                        most[name] = max(most[name] - amount, 0)
        for name, amount in named_amounts(queue.spec.capability).items():
            most[name] = min(amount, most.get(name, amount))
        return most

    def _take(self, queue: str, amounts: Mapping[str, int]) -> None:
        names = [each.metadata.name for each in self._path(queue)] or [queue]
        for name in names:
            self._used.setdefault(name, Counter()).update(amounts)

    def _path(self, name: str) -> Sequence[QueueObject]:
        """The queue and those above it, as far as they exist."""
        found: list[QueueObject] = []
        while name in self._queues and len(found) < _MOST_LEVELS:
            queue = self._queues[name]
            if queue in found:
                break
            found.append(queue)
            name = _parent(queue)
        return found


def _queue_of(group: StatusGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


def _parent(queue: QueueObject) -> str:
    return "" if queue.metadata.name == _ROOT else queue.spec.parent or _ROOT


def _text(resource: str, amount: int) -> str:
    return f"{amount / 1000:g}" if resource == "cpu" else str(amount)
