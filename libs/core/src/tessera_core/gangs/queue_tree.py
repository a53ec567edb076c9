"""Queues as parents and children: where pods may go, and what caps leave them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy as copy_of
from typing import Final

from msgspec.structs import replace

from tessera_core.gangs.queues import QueueAmounts, QueueSpec

VOLCANO_DEFAULT: Final = "default"
"""Volcano's scheduler makes this queue itself."""
MOST_LEVELS: Final = 32
"""Queues from a leaf to its root."""


class QueueTree:
    """The queues of one kind, as parents and children."""

    def __init__(self, queues: Iterable[QueueSpec]) -> None:
        """Names that come twice: the first counts."""
        self.queues: dict[str, QueueSpec] = {}
        for queue in queues:
            self.queues.setdefault(queue.name, queue)
        self._parents = {queue.parent for queue in self.queues.values()}
        self._below: dict[str, frozenset[str]] = {}

    def weighed(self, factors: Mapping[str, float]) -> QueueTree:
        """The same tree with so much of each queue's weight."""
        made = copy_of(self)
        made.queues = {
            name: _lighter(queue, factors.get(name, 1)) for name, queue in self.queues.items()
        }
        return made

    def path(self, name: str) -> tuple[QueueSpec, ...]:
        """The queue and those above it, as far as they exist, at most `MOST_LEVELS`; a circle is
        left where it closes."""
        found: list[QueueSpec] = []
        while name in self.queues and self.queues[name] not in found and len(found) < MOST_LEVELS:
            found.append(self.queues[name])
            name = found[-1].parent
        return tuple(found)

    def problem(self, name: str) -> str:
        """Why nothing can start in the queue of that name, whatever is free: value and remedy;
        empty for a queue that takes pods."""
        path = self.path(name)
        if path:
            return self._broken(path) or self._closed(path)
        if name == VOLCANO_DEFAULT:
            return ""
        return f"queue {name} does not exist: create it, or name one of {_listed(self.queues)}"

    def _broken(self, path: Sequence[QueueSpec]) -> str:
        last = path[-1]
        if len(path) == MOST_LEVELS and last.parent:
            return (
                f"{path[0].where} is {MOST_LEVELS} levels deep or more, or in a circle of so many: "
                "give it a parent nearer to the root"
            )
        if last.parent in self.queues:
            circle = " in ".join(each.name for each in (*path, self.queues[last.parent]))
            return f"queues are in a circle: {circle}: give one of them another parent"
        if last.parent:
            return (
                f"{last.where}: its parent {last.parent} does not exist: create it, or name one of "
                f"{_listed(self.queues)}"
            )
        return ""

    def _closed(self, path: Sequence[QueueSpec]) -> str:
        name = path[0].name
        if name in self._parents:
            children = [queue.name for queue in self.queues.values() if queue.parent == name]
            return f"{path[0].where} is a parent and takes no pods: name {_listed(children)}"
        closed = next((each for each in path if not each.open), None)
        if closed is not None:
            return f"{closed.where} is {closed.state}: open it, or name another queue"
        return ""

    def over(self, name: str, used: Callable[[str], QueueAmounts], asked: QueueAmounts) -> str:
        """Which cap the amounts would exceed, of the queue or of one above it, in numbers; empty
        when none. `used` is what a queue of that name uses together with those below it."""
        for queue in self.path(name):
            have = used(queue.name)
            for dimension, most in queue.cap.items():
                more, held = asked.get(dimension, 0), have.get(dimension, 0)
                if more and held + more > most:
                    return (
                        f"{queue.where} allows {most:g} {dimension}, {held:g} used, {more:g} asked"
                    )
        return ""

    def below(self, name: str) -> frozenset[str]:
        """The queue and all below it."""
        if name not in self._below:
            self._below[name] = frozenset(
                each for each in self.queues if any(up.name == name for up in self.path(each))
            )
        return self._below[name]


def _lighter(queue: QueueSpec, factor: float) -> QueueSpec:
    if factor == 1:
        return queue
    weights = {dim: weight * factor for dim, weight in queue.weights.items()}
    return replace(queue, weight=queue.weight * factor, weights=weights)


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:5]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more if shown else "those that exist: none does"
